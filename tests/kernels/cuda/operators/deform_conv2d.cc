// The launchers of deform_conv2d in the place of the CPU's loops.

#include "operators/device.h"
#include "targets/deform_conv2d_cuda.h"
#include "targets/thread_budget.h"
#include "targets/workspace.h"

namespace paddle_ops {
namespace {

using Params = DeformConv2dParams;

// As the binding does.
Params settled(Params p) {
  if (p.scratch_bytes == 0) p.scratch_bytes = deform_conv2d_cuda_scratch_bytes();
  return p;
}

int64_t workspace_bytes(Direction direction, const Params& p) {
  return deform_conv2d_cuda_kernel(direction, p).workspace_bytes(p);
}

void run(Direction direction, const Params& p) {
  const DeformConv2dShape& s = p.shape;
  const int64_t taps = s.n * s.deformable_groups * s.taps() * s.out_pixels();
  const int64_t x = s.n * s.c * s.image_pixels(), weight = s.o * s.group_in() * s.taps();
  const int64_t out = s.n * s.o * s.out_pixels();
  DeviceMemory device;
  device.add("x", p.x, x);
  device.add("offset", p.offset, 2 * taps);
  device.add("weight", p.weight, weight);
  device.add("bias", p.bias, s.o);
  device.add("mask", p.mask, taps);
  device.add("out", p.out, out);
  device.add("grad_out", p.grad_out, out);
  device.add("grad_x", p.grad_x, x);
  device.add("grad_offset", p.grad_offset, 2 * taps);
  device.add("grad_weight", p.grad_weight, weight);
  device.add("grad_bias", p.grad_bias, s.o);
  device.add("grad_mask", p.grad_mask, taps);
  void* workspace = device.allocate("workspace", workspace_bytes(direction, p));
  check(deform_conv2d_cuda_kernel(direction, p).run(p, workspace, nullptr));
}

template <Direction direction>
DeformConv2dKernel kernel() {
  return {[](const Params& p) { return workspace_bytes(direction, settled(p)); },
          [](const Params& p, void*) { run(direction, settled(p)); }};
}

}  // namespace

DeformConv2dKernel deform_conv2d_kernel(Direction direction, const Params&) {
  return direction == Direction::kForward ? kernel<Direction::kForward>()
                                          : kernel<Direction::kBackward>();
}

// The CPU's scratch memory and threads are not needed.
Workspace::Workspace(int64_t) : block_(nullptr) {}
Workspace::~Workspace() = default;
ThreadBudget::ThreadBudget(int) : threads_(1) {}
ThreadBudget::~ThreadBudget() = default;

}  // namespace paddle_ops

// The launchers of sigmoid_cross_entropy_with_logits in the place of the CPU's loops.

#include "targets/sigmoid_cross_entropy_with_logits.h"

#include "operators/device.h"
#include "targets/sigmoid_cross_entropy_with_logits_cuda.h"

namespace paddle_ops {
namespace {

using Params = SigmoidCrossEntropyParams;
using Launcher = cudaError_t (*)(const Params&, void*, cudaStream_t);

void run(Launcher launcher, const Params& p) {
  DeviceMemory device;
  const auto add = [&](const char* name, auto tensor) { device.add(name, tensor, p.count); };
  add("x", p.x);
  add("label", p.label);
  add("pos_weight", p.pos_weight);
  add("out", p.out);
  add("grad_out", p.grad_out);
  add("grad_x", p.grad_x);
  add("grad_label", p.grad_label);
  add("grad_pos_weight", p.grad_pos_weight);
  add("grad_grad_x", p.grad_grad_x);
  add("grad_grad_label", p.grad_grad_label);
  add("grad_grad_pos_weight", p.grad_grad_pos_weight);
  add("grad_grad_out", p.grad_grad_out);
  void* workspace = device.allocate("workspace", sigmoid_cross_entropy_cuda.workspace_bytes(p));
  check(launcher(p, workspace, nullptr));
}

}  // namespace

const SigmoidCrossEntropyKernels& sigmoid_cross_entropy_kernels() {
  static const SigmoidCrossEntropyKernels kernels = {
      [](const Params& p) { run(sigmoid_cross_entropy_cuda.forward, p); },
      [](const Params& p) { run(sigmoid_cross_entropy_cuda.backward, p); },
      [](const Params& p) { run(sigmoid_cross_entropy_cuda.double_backward, p); },
  };
  return kernels;
}

}  // namespace paddle_ops

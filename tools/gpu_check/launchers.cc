// The GPU's launchers in the place of the CPU's loops, so that the pybind11 module of csrc/pybind
// takes addresses of device memory. All on the default stream; nothing waits for the device.

#include <cuda_runtime_api.h>

#include <stdexcept>

#include "targets/deform_conv2d_cuda.h"
#include "targets/sigmoid_cross_entropy_with_logits.h"
#include "targets/sigmoid_cross_entropy_with_logits_cuda.h"
#include "targets/thread_budget.h"
#include "targets/workspace.h"

namespace paddle_ops {
namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

template <Direction direction>
DeformConv2dKernel convolution() {
  return {[](const DeformConv2dParams& p) {
            return deform_conv2d_cuda_kernel(direction, p).workspace_bytes(p);
          },
          [](const DeformConv2dParams& p, void* workspace) {
            check(deform_conv2d_cuda_kernel(direction, p).run(p, workspace, nullptr));
          }};
}

using Loss = SigmoidCrossEntropyParams;

void run(cudaError_t (*launcher)(const Loss&, void*, cudaStream_t), const Loss& p) {
  const Workspace workspace(sigmoid_cross_entropy_cuda.workspace_bytes(p));
  check(launcher(p, workspace.get(), nullptr));
}

}  // namespace

DeformConv2dKernel deform_conv2d_kernel(Direction direction, const DeformConv2dParams&) {
  return direction == Direction::kForward ? convolution<Direction::kForward>()
                                          : convolution<Direction::kBackward>();
}

const SigmoidCrossEntropyKernels& sigmoid_cross_entropy_kernels() {
  static const SigmoidCrossEntropyKernels kernels = {
      [](const Loss& p) { run(sigmoid_cross_entropy_cuda.forward, p); },
      [](const Loss& p) { run(sigmoid_cross_entropy_cuda.backward, p); },
      [](const Loss& p) { run(sigmoid_cross_entropy_cuda.double_backward, p); },
  };
  return kernels;
}

// Scratch memory of the device. Freed in the order of the stream.
Workspace::Workspace(int64_t bytes) : block_(nullptr) {
  if (bytes > 0) check(cudaMallocAsync(&block_, static_cast<size_t>(bytes), nullptr));
}
Workspace::~Workspace() {
  if (block_ != nullptr) cudaFreeAsync(block_, nullptr);
}

ThreadBudget::ThreadBudget(int) : threads_(1) {}
ThreadBudget::~ThreadBudget() = default;

}  // namespace paddle_ops

#pragma once
// The CUDA kernels of sigmoid_cross_entropy_with_logits as functions. Pointers in the params, and
// the workspace, are device memory; nothing waits for the device.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/sigmoid_cross_entropy_with_logits.h"

namespace paddle_ops {

struct SigmoidCrossEntropyCudaKernels {
  int64_t (*workspace_bytes)(const SigmoidCrossEntropyParams&);
  cudaError_t (*forward)(const SigmoidCrossEntropyParams&, void* workspace, cudaStream_t);
  cudaError_t (*backward)(const SigmoidCrossEntropyParams&, void* workspace, cudaStream_t);
  cudaError_t (*double_backward)(const SigmoidCrossEntropyParams&, void* workspace, cudaStream_t);
};

extern const SigmoidCrossEntropyCudaKernels sigmoid_cross_entropy_cuda;

}  // namespace paddle_ops

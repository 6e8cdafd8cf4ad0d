#pragma once
// The kernels for NVIDIA GPUs, by element type of x and index width.

#include <cuda_runtime_api.h>

#include "targets/deform_conv2d_select.h"

namespace paddle_ops {

// All pointers, the workspace too, are the device's; nothing waits for the device.
struct DeformConv2dCudaKernel {
  int64_t (*workspace_bytes)(const DeformConv2dParams&);
  cudaError_t (*run)(const DeformConv2dParams&, void* workspace, cudaStream_t);
};

struct DeformConv2dCudaKernels {
  DeformConv2dCudaKernel forward[2], backward[2];  // [64-bit index]
};

extern const DeformConv2dCudaKernels deform_conv2d_cuda_float32;
extern const DeformConv2dCudaKernels deform_conv2d_cuda_float64;
extern const DeformConv2dCudaKernels deform_conv2d_cuda_float16;
extern const DeformConv2dCudaKernels deform_conv2d_cuda_bfloat16;

DeformConv2dCudaKernel deform_conv2d_cuda_kernel(Direction direction,
                                                 const DeformConv2dParams& params);

// For params.scratch_bytes: PADDLE_OPS_GPU_SCRATCH_MB when it is set to a positive number, else 0.
// To be asked once for a call, as the variable may change.
int64_t deform_conv2d_cuda_scratch_bytes();

}  // namespace paddle_ops

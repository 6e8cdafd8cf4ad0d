#pragma once
// One element type's kernels; each type is a file of its own, for they take long to compile.

#include "kernels/deform_conv2d_cuda.cuh"
#include "targets/deform_conv2d_cuda.h"

namespace paddle_ops {
namespace cuda {

template <typename Loops>
constexpr DeformConv2dCudaKernel deform_conv2d_kernel() {
  return {deform_conv2d_workspace<Loops>, deform_conv2d_run<Loops>};
}

template <typename T>
constexpr DeformConv2dCudaKernels deform_conv2d_kernels() {
  return {{deform_conv2d_kernel<DeformConv2dForwardCuda<T, int32_t>>(),
           deform_conv2d_kernel<DeformConv2dForwardCuda<T, int64_t>>()},
          {deform_conv2d_kernel<DeformConv2dBackwardCuda<T, int32_t>>(),
           deform_conv2d_kernel<DeformConv2dBackwardCuda<T, int64_t>>()}};
}

}  // namespace cuda
}  // namespace paddle_ops

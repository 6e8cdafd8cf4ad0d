#include "kernels/deform_conv2d_cuda_plan.cuh"
#include "targets/deform_conv2d_cuda.h"

namespace paddle_ops {
namespace {

const DeformConv2dCudaKernels& kernels(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return deform_conv2d_cuda_float64;
    case DType::kFloat16:
      return deform_conv2d_cuda_float16;
    case DType::kBFloat16:
      return deform_conv2d_cuda_bfloat16;
    default:
      return deform_conv2d_cuda_float32;
  }
}

// One padded image must be addressable too. More than one is sampled at a time only while all of
// them stay below the bound on scratch memory.
bool narrow_indices(const DeformConv2dShape& s) {
  return deform_conv2d_fits_int32(s) && fits_int32(s.image_pixels() * cuda::Channels::of(s).row);
}

}  // namespace

DeformConv2dCudaKernel deform_conv2d_cuda_kernel(Direction direction,
                                                 const DeformConv2dParams& params) {
  const bool wide =
      params.index_bits == 0 ? !narrow_indices(params.shape) : params.index_bits == 64;
  const DeformConv2dCudaKernels& table = kernels(params.x.dtype);
  return (direction == Direction::kForward ? table.forward : table.backward)[wide];
}

}  // namespace paddle_ops

#include <algorithm>
#include <cstdlib>

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

int64_t deform_conv2d_cuda_scratch_bytes() {
  constexpr int64_t kMostMegabytes = 1 << 20;  // of which the kernels use less than 2^31 bytes
  const char* text = std::getenv("PADDLE_OPS_GPU_SCRATCH_MB");
  const int64_t megabytes = text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
  return std::clamp<int64_t>(megabytes, 0, kMostMegabytes) << 20;
}

}  // namespace paddle_ops

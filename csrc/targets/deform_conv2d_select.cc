#include "targets/deform_conv2d_select.h"

#include "targets/select.h"

namespace paddle_ops {

extern const DeformConv2dKernels deform_conv2d_baseline;
#if defined(__x86_64__)
extern const DeformConv2dKernels deform_conv2d_avx2;
extern const DeformConv2dKernels deform_conv2d_avx512;
#endif

namespace {

const DeformConv2dKernels& kernels() {
#if defined(__x86_64__)
  switch (select_target()) {
    case Target::kAvx512:
      return deform_conv2d_avx512;
    case Target::kAvx2:
      return deform_conv2d_avx2;
    default:
      break;
  }
#endif
  return deform_conv2d_baseline;
}

}  // namespace

DeformConv2dKernel deform_conv2d_kernel(Direction direction, const DeformConv2dParams& params) {
  const bool wide =
      params.index_bits == 0 ? !deform_conv2d_fits_int32(params.shape) : params.index_bits == 64;
  const auto& table = direction == Direction::kForward ? kernels().forward : kernels().backward;
  return table[accumulates_in_double(params.x.dtype)][wide];
}

}  // namespace paddle_ops

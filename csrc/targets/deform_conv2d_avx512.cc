#if defined(__x86_64__)
#define PO_TARGET_AVX512
#include "kernels/deform_conv2d_cpu.h"

namespace paddle_ops {
extern const DeformConv2dKernels deform_conv2d_avx512;
const DeformConv2dKernels deform_conv2d_avx512 = avx512::deform_conv2d_kernels();
}  // namespace paddle_ops
#endif

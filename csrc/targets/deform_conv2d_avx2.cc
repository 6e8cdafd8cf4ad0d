#if defined(__x86_64__)
#define PO_TARGET_AVX2
#include "kernels/deform_conv2d_cpu.h"

namespace paddle_ops {
extern const DeformConv2dKernels deform_conv2d_avx2;
const DeformConv2dKernels deform_conv2d_avx2 = avx2::deform_conv2d_kernels();
}  // namespace paddle_ops
#endif

#include "kernels/deform_conv2d_cpu.h"

namespace paddle_ops {
extern const DeformConv2dKernels deform_conv2d_baseline;
const DeformConv2dKernels deform_conv2d_baseline = baseline::deform_conv2d_kernels();
}  // namespace paddle_ops

#include "kernels/deform_conv2d_cpu.h"

namespace paddle_ops {
extern const DeformConv2dKernels deform_conv2d_baseline;
const DeformConv2dKernels deform_conv2d_baseline =
    baseline::deform_conv2d_kernels<baseline::DeformConv2dForward,
                                    baseline::DeformConv2dBackward>();
}  // namespace paddle_ops

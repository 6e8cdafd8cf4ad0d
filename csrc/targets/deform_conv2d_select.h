#pragma once

#include "kernels/deform_conv2d.h"

namespace paddle_ops {

enum class Direction { kForward, kBackward };

// The loops for this machine, these types and these sizes.
DeformConv2dKernel deform_conv2d_kernel(Direction direction, const DeformConv2dParams& params);

}  // namespace paddle_ops

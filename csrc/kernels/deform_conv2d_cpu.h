#pragma once
// The table of this target's loops.

#include "kernels/deform_conv2d_cpu_backward.h"
#include "kernels/deform_conv2d_cpu_forward.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename Loops>
int64_t deform_conv2d_workspace(const DeformConv2dParams& params) {
  Arena arena;
  Loops(params, &arena);
  return arena.size();
}

template <typename Loops>
void deform_conv2d_run(const DeformConv2dParams& params, void* workspace) {
  Arena arena = Arena::over(workspace);
  Loops(params, &arena).run();
}

template <typename Loops>
constexpr DeformConv2dKernel deform_conv2d_kernel() {
  return {deform_conv2d_workspace<Loops>, deform_conv2d_run<Loops>};
}

template <template <typename, typename> class Forward, template <typename, typename> class Backward>
constexpr DeformConv2dKernels deform_conv2d_kernels() {
  return {{{deform_conv2d_kernel<Forward<float, int32_t>>(),
            deform_conv2d_kernel<Forward<float, int64_t>>()},
           {deform_conv2d_kernel<Forward<double, int32_t>>(),
            deform_conv2d_kernel<Forward<double, int64_t>>()}},
          {{deform_conv2d_kernel<Backward<float, int32_t>>(),
            deform_conv2d_kernel<Backward<float, int64_t>>()},
           {deform_conv2d_kernel<Backward<double, int32_t>>(),
            deform_conv2d_kernel<Backward<double, int64_t>>()}}};
}

}  // namespace PO_TARGET
}  // namespace paddle_ops

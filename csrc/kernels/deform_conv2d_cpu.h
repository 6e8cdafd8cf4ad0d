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

template <typename acc_t, typename index_t>
int64_t deform_conv2d_forward_workspace(const DeformConv2dParams& params) {
  return PixelLanes<acc_t, index_t>::suits(params.shape)
             ? deform_conv2d_workspace<DeformConv2dForward<acc_t, index_t, PixelLanes>>(params)
             : deform_conv2d_workspace<DeformConv2dForward<acc_t, index_t, OutputLanes>>(params);
}

template <typename acc_t, typename index_t>
void deform_conv2d_forward_run(const DeformConv2dParams& params, void* workspace) {
  PixelLanes<acc_t, index_t>::suits(params.shape)
      ? deform_conv2d_run<DeformConv2dForward<acc_t, index_t, PixelLanes>>(params, workspace)
      : deform_conv2d_run<DeformConv2dForward<acc_t, index_t, OutputLanes>>(params, workspace);
}

template <typename acc_t, typename index_t>
constexpr DeformConv2dKernel deform_conv2d_forward() {
  return {deform_conv2d_forward_workspace<acc_t, index_t>,
          deform_conv2d_forward_run<acc_t, index_t>};
}

template <typename acc_t, typename index_t>
constexpr DeformConv2dKernel deform_conv2d_backward() {
  using Loops = DeformConv2dBackward<acc_t, index_t>;
  return {deform_conv2d_workspace<Loops>, deform_conv2d_run<Loops>};
}

constexpr DeformConv2dKernels deform_conv2d_kernels() {
  return {{{deform_conv2d_forward<float, int32_t>(), deform_conv2d_forward<float, int64_t>()},
           {deform_conv2d_forward<double, int32_t>(), deform_conv2d_forward<double, int64_t>()}},
          {{deform_conv2d_backward<float, int32_t>(), deform_conv2d_backward<float, int64_t>()},
           {deform_conv2d_backward<double, int32_t>(), deform_conv2d_backward<double, int64_t>()}}};
}

}  // namespace PO_TARGET
}  // namespace paddle_ops

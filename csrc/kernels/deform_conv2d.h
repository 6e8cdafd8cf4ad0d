#pragma once
// Deformable convolution (v1 without mask, v2 with), shared by every device:
//
//   out[n, o, p] = bias[o] + sum over c, t of weight[o, c, t] * mask[n, g K + t, p] * sample(x[n,
//   c], y, x) y = oh * stride_h - pad_top  + i * dilation_h + offset[n, 2 (g K + t),     p] x = ow
//   * stride_w - pad_left + j * dilation_w + offset[n, 2 (g K + t) + 1, p]
//
// with K = kh * kw taps t = i * kw + j, and g = c / (C / deformable_groups). The form computed is a
// matrix product of the weights with sampled columns, tile by tile; the columns are never stored
// whole. Source: Zhu et al., "Deformable ConvNets v2", 2019.

#include <cstdint>

#include "kernels/common/bilinear.h"
#include "kernels/common/index.h"
#include "kernels/common/numeric.h"

namespace paddle_ops {

enum class BoundaryGrad : int { kPaddle = 0, kTorchvision = 1 };

// Every size of one call. K = kh * kw.
struct DeformConv2dShape {
  int64_t n, c, h, w;  // x      [n, c, h, w]
  int64_t o, kh, kw;   // weight [o, c / groups, kh, kw]
  int64_t oh, ow;      // out    [n, o, oh, ow];  offset [n, 2 * deformable_groups * K, oh, ow]
  int64_t stride_h, stride_w;
  int64_t pad_top, pad_left;  // bottom and right padding only show in oh and ow
  int64_t dilation_h, dilation_w;
  int64_t groups, deformable_groups;

  PO_HOSTDEVICE int64_t taps() const { return kh * kw; }
  PO_HOSTDEVICE int64_t image_pixels() const { return h * w; }
  PO_HOSTDEVICE int64_t out_pixels() const { return oh * ow; }
  PO_HOSTDEVICE int64_t group_in() const { return c / groups; }
  PO_HOSTDEVICE int64_t group_out() const { return o / groups; }
};

struct DeformConv2dParams {
  DeformConv2dShape shape;
  BoundaryGrad boundary_grad;
  ConstData x, offset, weight;
  ConstData bias;      // [o] or absent
  ConstData mask;      // [n, deformable_groups * K, oh, ow] or absent
  MutableData out;     // forward only
  ConstData grad_out;  // [n, o, oh, ow], backward only
  // Backward only, each absent when it is not wanted; each has the shape of its input.
  MutableData grad_x, grad_offset, grad_weight, grad_bias, grad_mask;
  int num_threads = 0;  // settled before the workspace is measured, see thread_budget.h
  int index_bits = 0;   // 0: by size; 32 or 64 force a path (tests)
  // GPU only: whether the same input must give the same bits (on the CPU it always does), and about
  // how much scratch memory to use, 0 for the default. One image is sampled at a time at least.
  bool deterministic = false;
  int64_t scratch_bytes = 0;
};

// True when no tensor, and not the column matrix of one image either, has 2^31 elements or more,
// and no coordinate leaves that range (see locate). The columns are never stored, but this is the
// rule.
PO_HOSTDEVICE bool deform_conv2d_fits_int32(const DeformConv2dShape& s) {
  const int64_t taps = s.deformable_groups * s.taps();
  return fits_int32(s.n * s.c * s.image_pixels()) && fits_int32(s.n * 2 * taps * s.out_pixels()) &&
         fits_int32(s.o * s.group_in() * s.taps()) && fits_int32(s.n * s.o * s.out_pixels()) &&
         fits_int32(s.c * s.taps() * s.out_pixels()) && fits_int32(s.h + s.pad_top) &&
         fits_int32(s.w + s.pad_left) &&
         fits_int32((s.oh - 1) * s.stride_h + (s.kh - 1) * s.dilation_h) &&
         fits_int32((s.ow - 1) * s.stride_w + (s.kw - 1) * s.dilation_w);
}

// A build of the loops for one instruction set, by accumulation type and index width.
struct DeformConv2dKernel {
  int64_t (*workspace_bytes)(const DeformConv2dParams&);
  void (*run)(const DeformConv2dParams&, void* workspace);
};
struct DeformConv2dKernels {
  DeformConv2dKernel forward[2][2];  // [double accumulation][64-bit index]
  DeformConv2dKernel backward[2][2];
};

}  // namespace paddle_ops

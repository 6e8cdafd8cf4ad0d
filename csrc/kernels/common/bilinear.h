#pragma once
// Bilinear sampling at a real position, its value and its slopes: the formula, at its one address.
//
//   y, x = position;  y0 = floor(y), ly = y - y0, hy = 1 - ly, and likewise for x
//   sample  = hy hx v0 + hy lx v1 + ly hx v2 + ly lx v3
//   d/dy    = hx (v2 - v0) + lx (v3 - v1)         (the right-hand slope where y is an integer)
//   d/dx    = hy (v1 - v0) + ly (v3 - v2)
//
// with v0..v3 the values at (y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 + 1), each 0 when it
// lies outside the image. Source: Dai et al., "Deformable Convolutional Networks", 2017, eq. 3-4.

#include <cstdint>

#include "kernels/common/hostdevice.h"

namespace paddle_ops {

// What a sample at one position takes part in.
enum class Reach : int32_t {
  kNone = 0,   // outside (or NaN): value, and every gradient, is 0
  kFull = 1,   // -1 < y < H and -1 < x < W
  kSlope = 2,  // exactly on the -1 border under the "torchvision" rule: value 0, but a slope
};

// One tap's place in the image: four pixel numbers, the position's fractions, and its modulation.
template <typename acc_t, typename index_t>
struct Sample {
  index_t pixel[4];  // pixel numbers of v0..v3; the zero pixel where outside
  acc_t ly, lx;      // fractions in [0, 1)
  acc_t mask;        // 1 without a mask
  Reach reach;
};

// slope_at_border: the "torchvision" rule, which keeps the right-hand slope at exactly -1.
template <typename acc_t>
PO_HOSTDEVICE Reach reach_of(acc_t y, acc_t x, acc_t height, acc_t width, bool slope_at_border) {
  // Comparisons with NaN are false, so NaN ends up outside without a test of its own.
  const bool below = y < height && x < width;
  if (below && y > acc_t(-1) && x > acc_t(-1)) return Reach::kFull;
  if (slope_at_border && below && y >= acc_t(-1) && x >= acc_t(-1)) return Reach::kSlope;
  return Reach::kNone;
}

template <typename V, typename acc_t>
PO_HOSTDEVICE V bilinear_value(acc_t ly, acc_t lx, V v0, V v1, V v2, V v3) {
  const acc_t hy = acc_t(1) - ly, hx = acc_t(1) - lx;
  return v0 * (hy * hx) + v1 * (hy * lx) + v2 * (ly * hx) + v3 * (ly * lx);
}

template <typename acc_t>
PO_HOSTDEVICE acc_t bilinear_slope_y(acc_t lx, acc_t v0, acc_t v1, acc_t v2, acc_t v3) {
  return (acc_t(1) - lx) * (v2 - v0) + lx * (v3 - v1);
}

template <typename acc_t>
PO_HOSTDEVICE acc_t bilinear_slope_x(acc_t ly, acc_t v0, acc_t v1, acc_t v2, acc_t v3) {
  return (acc_t(1) - ly) * (v1 - v0) + ly * (v3 - v2);
}

}  // namespace paddle_ops

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

#include <cmath>
#include <cstdint>
#include <type_traits>

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
  acc_t ly, lx;      // fractions in [0, 1]
  acc_t mask;        // 1 without a mask
  Reach reach;
};

// One coordinate, base + offset with an integer base.
template <typename acc_t, typename index_t>
struct Coordinate {
  index_t low;     // its floor; meaningful where border
  acc_t fraction;  // its distance from there
  bool inside;     // -1 < coordinate < size
  bool border;     // -1 <= coordinate < size
};

// The offset alone is split into floor and fraction. Adding the base first would round the position
// to the spacing of numbers of its size (3e-5 pixels at 300 in float), and the fraction with it.
template <typename acc_t, typename index_t>
PO_HOSTDEVICE Coordinate<acc_t, index_t> locate(index_t base, acc_t offset, index_t size) {
  using unsigned_t = std::make_unsigned_t<index_t>;
  // The largest float below 2^31, or 2^62: what index_t holds. NaN compares false and ends outside.
  constexpr acc_t kLimit = sizeof(index_t) == 4 ? acc_t(2147483520) : acc_t(4611686018427387904);
  const acc_t floor_offset = std::floor(offset);
  const bool small = floor_offset >= -kLimit && floor_offset <= kLimit;
  const index_t steps = static_cast<index_t>(small ? floor_offset : acc_t(0));
  // Unsigned, so that it may wrap: deform_conv2d_fits_int32 sees to it that a sum which does lands
  // outside [-1, size).
  const index_t low =
      static_cast<index_t>(static_cast<unsigned_t>(base) + static_cast<unsigned_t>(steps));
  const acc_t fraction = small ? offset - floor_offset : acc_t(0);
  const bool border = small && low >= -1 && low < size;
  return {low, fraction, border && (low >= 0 || fraction > acc_t(0)), border};
}

// slope_at_border: the "torchvision" rule, which keeps the right-hand slope at exactly -1.
template <typename acc_t, typename index_t>
PO_HOSTDEVICE Reach reach_of(const Coordinate<acc_t, index_t>& y,
                             const Coordinate<acc_t, index_t>& x, bool slope_at_border) {
  if (y.inside && x.inside) return Reach::kFull;
  return slope_at_border && y.border && x.border ? Reach::kSlope : Reach::kNone;
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

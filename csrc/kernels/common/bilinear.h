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

// One coordinate, base + offset with an integer base. Number is what the arithmetic is done on, one
// number or a vector of them: it has the types value_t, index_t and index_mask, and the functions
// floor, to_index, add_wrapping, as_index_mask, all (and) and any (or).
template <typename Number>
struct Coordinate {
  typename Number::index_t low;        // its floor; meaningful where border
  typename Number::value_t fraction;   // its distance from there, in [0, 1]
  typename Number::index_mask inside;  // -1 < coordinate < size
  typename Number::index_mask border;  // -1 <= coordinate < size
};

// The offset alone is split into floor and fraction. Adding the base first would round the position
// to the spacing of numbers of its size (3e-5 pixels at 300 in float), and the fraction with it.
template <typename Number, typename index_t>
PO_HOSTDEVICE Coordinate<Number> locate(typename Number::index_t base,
                                        typename Number::value_t offset, index_t size) {
  using value_t = typename Number::value_t;
  using scalar_t = typename Number::scalar_t;
  // The largest float below 2^31, or 2^62: what index_t holds. NaN compares false and ends outside.
  constexpr scalar_t kLimit =
      sizeof(index_t) == 4 ? scalar_t(2147483520) : scalar_t(4611686018427387904);
  const value_t floor_offset = Number::floor(offset);
  const auto small = Number::all(floor_offset >= -kLimit, floor_offset <= kLimit);
  const value_t safe = small ? floor_offset : value_t{};
  // May wrap: deform_conv2d_fits_int32 sees to it that a sum which does lands outside [-1, size).
  const auto low = Number::add_wrapping(base, Number::to_index(safe));
  const value_t fraction = small ? offset - floor_offset : value_t{};
  const auto border = Number::all(Number::as_index_mask(small), low >= index_t(-1), low < size);
  const auto positive = Number::as_index_mask(fraction > scalar_t(0));
  return {low, fraction, Number::all(border, Number::any(low >= index_t(0), positive)), border};
}

// The share of each of v0..v3 in the sample.
template <typename V>
PO_HOSTDEVICE void bilinear_weights(V ly, V lx, V* weight) {
  const V hy = 1 - ly, hx = 1 - lx;
  weight[0] = hy * hx;
  weight[1] = hy * lx;
  weight[2] = ly * hx;
  weight[3] = ly * lx;
}

template <typename V, typename W>
PO_HOSTDEVICE V bilinear_value(const W* weight, V v0, V v1, V v2, V v3) {
  return v0 * weight[0] + v1 * weight[1] + v2 * weight[2] + v3 * weight[3];
}

template <typename V>
PO_HOSTDEVICE V bilinear_slope_y(V lx, V v0, V v1, V v2, V v3) {
  return (1 - lx) * (v2 - v0) + lx * (v3 - v1);
}

template <typename V>
PO_HOSTDEVICE V bilinear_slope_x(V ly, V v0, V v1, V v2, V v3) {
  return (1 - ly) * (v1 - v0) + ly * (v3 - v2);
}

}  // namespace paddle_ops

#pragma once
// The backward pass over the samples of one tile: everything that needs the four neighbours, while
// they are in registers.

#include "kernels/common/simd.h"
#include "kernels/deform_conv2d_plan.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename acc_t, typename index_t>
struct SampleTask {
  const PixelTile<acc_t, index_t>* tile;
  const Sample<acc_t, index_t>* plan;  // [tap][kMaxTile]
  int64_t taps, width;                 // width: channels of the slab, padded
  const acc_t* pixels;                 // [image pixel][width]
  const acc_t* grad_column;            // [tile pixel][row], a row is [tap][width]
  acc_t* grad_pixels;                  // as pixels; added to
  acc_t* column;                       // as grad_column
  int64_t row;
  acc_t* partial;  // [tap][dy, dx, mask][partial_row], at the tile's first pixel
  int64_t partial_row;
};

template <int kLanes, typename T>
PO_HOSTDEVICE T sum_lanes(Vec<T, kLanes> v) {
  if constexpr (kLanes == 2) {
    return v[0] + v[1];
  } else {
    using Half = Vec<T, kLanes / 2>;
    Half halves[2];
    memcpy(halves, &v, sizeof(v));
    return sum_lanes<kLanes / 2, T>(halves[0] + halves[1]);
  }
}

// One sample: adds to grad_pixels, writes column, returns the dot products of grad_column with the
// four neighbours in dot.
template <int kLanes, bool kX, bool kOffset, bool kColumn, typename acc_t, typename index_t>
PO_HOSTDEVICE void backward_sample(const SampleTask<acc_t, index_t>& task,
                                   const Sample<acc_t, index_t>& sample, const acc_t* grad_column,
                                   acc_t* column, acc_t* dot) {
  using V = Vec<acc_t, kLanes>;
  const int64_t width = task.width;
  int64_t at[4];
  for (int k = 0; k < 4; ++k) at[k] = static_cast<int64_t>(sample.pixel[k]) * width;
  const acc_t hy = acc_t(1) - sample.ly, hx = acc_t(1) - sample.lx;
  const acc_t share[4] = {sample.mask * (hy * hx), sample.mask * (hy * sample.lx),
                          sample.mask * (sample.ly * hx), sample.mask * (sample.ly * sample.lx)};
  V sum[4] = {};
  for (int64_t c = 0; c < width; c += kLanes) {
    V grad;
    if constexpr (kX || kOffset) grad = load_vec<V>(grad_column + c);
    if constexpr (kOffset || kColumn) {
      V v[4];
      for (int k = 0; k < 4; ++k) v[k] = load_vec<V>(task.pixels + at[k] + c);
      if constexpr (kOffset) {
        for (int k = 0; k < 4; ++k) sum[k] += grad * v[k];
      }
      if constexpr (kColumn) {
        const V value = bilinear_value(sample.ly, sample.lx, v[0], v[1], v[2], v[3]);
        store_vec(column + c, value * sample.mask);
      }
    }
    if constexpr (kX) {
      for (int k = 0; k < 4; ++k) {
        acc_t* to = task.grad_pixels + at[k] + c;
        store_vec(to, load_vec<V>(to) + grad * share[k]);
      }
    }
  }
  if constexpr (kOffset) {
    for (int k = 0; k < 4; ++k) dot[k] = sum_lanes<kLanes, acc_t>(sum[k]);
  }
}

template <int kLanes, bool kX, bool kOffset, bool kColumn, typename acc_t, typename index_t>
__attribute__((noinline)) void backward_samples_of(const SampleTask<acc_t, index_t>& task) {
  for (int64_t t = 0; t < task.taps; ++t) {
    for (int64_t i = 0; i < task.tile->count; ++i) {
      const Sample<acc_t, index_t>& sample = task.plan[t * kMaxTile + i];
      const acc_t* grad_column = task.grad_column + i * task.row + t * task.width;
      acc_t* column = kColumn ? task.column + i * task.row + t * task.width : nullptr;
      acc_t dot[4] = {};
      if (sample.reach == Reach::kFull) {
        backward_sample<kLanes, kX, kOffset, kColumn>(task, sample, grad_column, column, dot);
      } else {
        if (kColumn) std::fill_n(column, task.width, acc_t(0));
        if (kOffset && sample.reach == Reach::kSlope) {
          backward_sample<kLanes, false, true, false>(task, sample, grad_column, column, dot);
        }
      }
      if constexpr (kOffset) {
        acc_t* partial = task.partial + 3 * t * task.partial_row + i;
        const acc_t slope_y = bilinear_slope_y(sample.lx, dot[0], dot[1], dot[2], dot[3]);
        const acc_t slope_x = bilinear_slope_x(sample.ly, dot[0], dot[1], dot[2], dot[3]);
        const acc_t value = bilinear_value(sample.ly, sample.lx, dot[0], dot[1], dot[2], dot[3]);
        const bool reached = sample.reach != Reach::kNone;  // a NaN mask must not show elsewhere
        partial[0] = reached ? sample.mask * slope_y : acc_t(0);
        partial[task.partial_row] = reached ? sample.mask * slope_x : acc_t(0);
        partial[2 * task.partial_row] = sample.reach == Reach::kFull ? value : acc_t(0);
      }
    }
  }
}

// Picks the instance that does what is wanted and nothing else.
template <int kLanes, typename acc_t, typename index_t>
void backward_samples(const SampleTask<acc_t, index_t>& task, bool x, bool offset, bool column) {
  if (x && offset && column) return backward_samples_of<kLanes, true, true, true>(task);
  if (x && offset) return backward_samples_of<kLanes, true, true, false>(task);
  if (x && column) return backward_samples_of<kLanes, true, false, true>(task);
  if (offset && column) return backward_samples_of<kLanes, false, true, true>(task);
  if (x) return backward_samples_of<kLanes, true, false, false>(task);
  if (offset) return backward_samples_of<kLanes, false, true, false>(task);
  if (column) return backward_samples_of<kLanes, false, false, true>(task);
}

}  // namespace PO_TARGET
}  // namespace paddle_ops

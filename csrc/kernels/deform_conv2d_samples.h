#pragma once
// The backward pass over the samples of one tile: everything that needs the four neighbours, while
// they are in registers.

#include "kernels/common/simd.h"
#include "kernels/deform_conv2d_plan.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename acc_t, typename index_t, int64_t kTile>
struct SampleTask {
  int64_t count;                               // pixels of the tile
  const TapPlan<acc_t, index_t, kTile>* plan;  // [tap]
  int64_t taps, width;                         // width: channels of the slab, padded
  const acc_t* pixels;                         // [image pixel][width]
  const acc_t* grad_column;                    // [tile pixel][row], a row is [tap][width]
  acc_t* grad_pixels;                          // as pixels; added to
  acc_t* column;                               // as grad_column
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

// Sample i of a tap: adds to grad_pixels, writes column, and leaves the dot products of grad_column
// with the four neighbours in dot[..][i].
template <int kLanes, bool kX, bool kOffset, bool kColumn, typename acc_t, typename index_t,
          int64_t kTile>
PO_HOSTDEVICE void backward_sample(const SampleTask<acc_t, index_t, kTile>& task,
                                   const TapPlan<acc_t, index_t, kTile>& plan, int64_t i,
                                   const acc_t* grad_column, acc_t* column, acc_t (*dot)[kTile]) {
  using V = Vec<acc_t, kLanes>;
  const int64_t width = known_width<kLanes, acc_t>(task.width);
  const acc_t mask = plan.mask[i];
  int64_t at[4];
  acc_t weight[4];
  for (int k = 0; k < 4; ++k) {
    at[k] = static_cast<int64_t>(plan.pixel[k][i]) * width;
    weight[k] = plan.weight[k][i];
  }
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
        store_vec(column + c, bilinear_value(weight, v[0], v[1], v[2], v[3]) * mask);
      }
    }
    if constexpr (kX) {
      for (int k = 0; k < 4; ++k) {
        acc_t* to = task.grad_pixels + at[k] + c;
        store_vec(to, load_vec<V>(to) + grad * (mask * weight[k]));
      }
    }
  }
  if constexpr (kOffset) {
    for (int k = 0; k < 4; ++k) dot[k][i] = sum_lanes<kLanes, acc_t>(sum[k]);
  }
}

// grad_offset and grad_mask of one tap from the dot products.
template <typename acc_t, typename index_t, int64_t kTile>
void finish_offsets(const TapPlan<acc_t, index_t, kTile>& plan, const acc_t (*dot)[kTile],
                    int64_t count, acc_t* grad_y, acc_t* grad_x, acc_t* grad_mask) {
  for (int64_t i = 0; i < count; ++i) {
    const acc_t v0 = dot[0][i], v1 = dot[1][i], v2 = dot[2][i], v3 = dot[3][i];
    const acc_t slope_y = plan.mask[i] * bilinear_slope_y(plan.lx[i], v0, v1, v2, v3);
    const acc_t slope_x = plan.mask[i] * bilinear_slope_x(plan.ly[i], v0, v1, v2, v3);
    const acc_t weight[4] = {plan.weight[0][i], plan.weight[1][i], plan.weight[2][i],
                             plan.weight[3][i]};
    const acc_t value = bilinear_value(weight, v0, v1, v2, v3);
    // Chosen, not multiplied: an infinite gradient must not show where nothing was sampled.
    grad_y[i] = plan.reached[i] != acc_t(0) ? slope_y : acc_t(0);
    grad_x[i] = plan.reached[i] != acc_t(0) ? slope_x : acc_t(0);
    grad_mask[i] = plan.inside[i] != acc_t(0) ? value : acc_t(0);
  }
}

template <int kLanes, bool kX, bool kOffset, bool kColumn, typename acc_t, typename index_t,
          int64_t kTile>
__attribute__((noinline)) void backward_samples_of(const SampleTask<acc_t, index_t, kTile>& task) {
  acc_t dot[4][kTile];
  for (int64_t t = 0; t < task.taps; ++t) {
    const auto& plan = task.plan[t];
    for (int64_t i = 0; i < task.count; ++i) {
      const int64_t at = i * task.row + t * task.width;
      backward_sample<kLanes, kX, kOffset, kColumn>(task, plan, i, task.grad_column + at,
                                                    task.column + at, dot);
    }
    if constexpr (kOffset) {
      acc_t* partial = task.partial + 3 * t * task.partial_row;
      finish_offsets(plan, dot, task.count, partial, partial + task.partial_row,
                     partial + 2 * task.partial_row);
    }
  }
}

// Picks the instance that does what is wanted and nothing else.
template <int kLanes, typename Task>
void backward_samples(const Task& task, bool x, bool offset, bool column) {
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

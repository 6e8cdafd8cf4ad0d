#pragma once
// The backward pass over the samples of one tile: everything that needs the four neighbours, while
// they are in registers.

#include "kernels/common/simd.h"
#include "kernels/deform_conv2d_cpu_offset_sums.h"
#include "kernels/deform_conv2d_plan.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename acc_t, typename index_t, int64_t kTile>
struct SampleTask {
  int64_t count;                               // pixels of the tile
  const TapPlan<acc_t, index_t, kTile>* plan;  // [tap]
  const TapSlopes<acc_t, kTile>* slopes;       // [tap]
  int64_t taps, width;                         // width: channels of the slab, padded
  const acc_t* pixels;                         // [image pixel][width]
  const acc_t* grad_column;                    // [tile pixel][row], a row is [tap][width]
  acc_t* grad_pixels;                          // as pixels; added to
  acc_t* column;                               // as grad_column
  int64_t row;
  OffsetRows<acc_t> sums;  // over this slab's channels, at the tile's first pixel
};

// The sums over the lanes of four vectors.
template <int kLanes, typename T>
PO_HOSTDEVICE Vec<T, 4> sum_lanes(const Vec<T, kLanes>* v) {
  if constexpr (kLanes == 2) {
    return Vec<T, 4>{v[0][0] + v[0][1], v[1][0] + v[1][1], v[2][0] + v[2][1], v[3][0] + v[3][1]};
  } else if constexpr (kLanes == 4) {
    using Order = decltype(v[0] < v[0]);
    const Order low{0, 4, 1, 5}, high{2, 6, 3, 7}, left{0, 1, 4, 5}, right{2, 3, 6, 7};
    const Vec<T, 4> first =
        __builtin_shuffle(v[0], v[1], low) + __builtin_shuffle(v[0], v[1], high);
    const Vec<T, 4> last = __builtin_shuffle(v[2], v[3], low) + __builtin_shuffle(v[2], v[3], high);
    return __builtin_shuffle(first, last, left) + __builtin_shuffle(first, last, right);
  } else {
    using Half = Vec<T, kLanes / 2>;
    Half sum[4];
    for (int k = 0; k < 4; ++k) {
      Half halves[2];
      memcpy(halves, &v[k], sizeof(halves));
      sum[k] = halves[0] + halves[1];
    }
    return sum_lanes<kLanes / 2, T>(sum);
  }
}

// Sample i of a tap: adds to grad_pixels, writes column, and leaves the dot products of grad_column
// with the four neighbours in dot.
template <int kLanes, bool kX, bool kOffset, bool kColumn, typename acc_t, typename index_t,
          int64_t kTile>
PO_HOSTDEVICE void backward_sample(const SampleTask<acc_t, index_t, kTile>& task,
                                   const TapPlan<acc_t, index_t, kTile>& plan, int64_t i,
                                   const acc_t* grad_column, acc_t* column, acc_t* dot) {
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
  if constexpr (kOffset) store_vec(dot, sum_lanes<kLanes, acc_t>(sum));
}

// grad_offset and grad_mask of one tap from the dot products.
template <typename acc_t, typename index_t, int64_t kTile>
void finish_offsets(const TapPlan<acc_t, index_t, kTile>& plan,
                    const TapSlopes<acc_t, kTile>& slopes, const acc_t (*dot)[4], int64_t count,
                    acc_t* grad_y, acc_t* grad_x, acc_t* grad_mask) {
  constexpr int kLanes = kFullLanes<acc_t>;
  using V = Vec<acc_t, kLanes>;
  acc_t result[3][kTile];  // dy, dx, mask
  for (int64_t i = 0; i < count; i += kLanes) {
    V v[4], weight[4];
    for (int k = 0; k < 4; ++k) {
      v[k] = load_vec<V>(dot[i] + k * kLanes);
      weight[k] = load_vec<V>(plan.weight[k] + i);
    }
    transpose<acc_t, kLanes, 4>(v);
    const V mask = load_vec<V>(plan.mask + i);
    const V lx = load_vec<V>(slopes.lx + i), ly = load_vec<V>(slopes.ly + i);
    // Chosen, not multiplied: an infinite gradient must not show where nothing was sampled.
    const auto reached = load_vec<V>(slopes.reached + i) != 0;
    const auto inside = load_vec<V>(slopes.inside + i) != 0;
    store_vec(result[0] + i, reached ? mask * bilinear_slope_y(lx, v[0], v[1], v[2], v[3]) : V{});
    store_vec(result[1] + i, reached ? mask * bilinear_slope_x(ly, v[0], v[1], v[2], v[3]) : V{});
    store_vec(result[2] + i, inside ? bilinear_value(weight, v[0], v[1], v[2], v[3]) : V{});
  }
  std::copy_n(result[0], count, grad_y);
  std::copy_n(result[1], count, grad_x);
  std::copy_n(result[2], count, grad_mask);
}

template <int kLanes, bool kX, bool kOffset, bool kColumn, typename acc_t, typename index_t,
          int64_t kTile>
__attribute__((noinline)) void backward_samples_of(const SampleTask<acc_t, index_t, kTile>& task) {
  acc_t dot[kTile][4];
  for (int64_t t = 0; t < task.taps; ++t) {
    const auto& plan = task.plan[t];
    for (int64_t i = 0; i < task.count; ++i) {
      const int64_t at = i * task.row + t * task.width;
      backward_sample<kLanes, kX, kOffset, kColumn>(task, plan, i, task.grad_column + at,
                                                    task.column + at, dot[i]);
    }
    if constexpr (kOffset) {
      const OffsetRows<acc_t>& sums = task.sums;
      finish_offsets(plan, task.slopes[t], dot, task.count, sums.offset + 2 * t * sums.row,
                     sums.offset + (2 * t + 1) * sums.row, sums.mask + t * sums.row);
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

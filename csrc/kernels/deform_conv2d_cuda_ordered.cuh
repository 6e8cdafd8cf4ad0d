#pragma once
// grad_x without atomics, the same bits each time. Backward has written the gradients of the
// sampled columns; here a block owns a band of image rows for some channels, looks through the
// samples of its image in their order, and adds those that fall into its band. Each element of
// grad_x belongs to one thread.

#include "kernels/deform_conv2d_cuda_backward_data.cuh"

namespace paddle_ops {
namespace cuda {

constexpr int kOrderedThreads = 128;

template <typename acc_t, typename index_t>
struct OrderedShared {
  SamplePlan<acc_t, index_t, kOrderedThreads> plan;
  index_t y[kOrderedThreads];
  int hit[kOrderedThreads];         // samples that fall into the band, in order
  int count[kOrderedThreads / 32];  // of each warp
};

// Plans sample `at` of each thread and lists those that fall into rows [first_row, end_row).
// Returns their number.
template <typename T, typename index_t>
__device__ __forceinline__ int list_hits(const Launch<T>& launch, const OutPixel<index_t>& at,
                                         int deformable_group, int tap, int64_t first_row,
                                         int64_t end_row,
                                         OrderedShared<acc_of<T>, index_t>* shared) {
  const int i = static_cast<int>(threadIdx.x), warp = i / 32;
  const auto sample = sample_of(launch, at, deformable_group, tap, false);
  const bool hit = sample.inside && sample.y + 1 >= first_row && sample.y < end_row;
  const unsigned hits = __ballot_sync(~0u, hit);
  __syncthreads();  // the list before is done with
  shared->plan.set(i, sample);
  shared->y[i] = sample.y;
  if (i % 32 == 0) shared->count[warp] = __popc(hits);
  __syncthreads();
  int before = 0, all = 0;
  for (int w = 0; w < kOrderedThreads / 32; ++w) {
    if (w < warp) before += shared->count[w];
    all += shared->count[w];
  }
  if (hit) shared->hit[before + __popc(hits & ((1u << i % 32) - 1))] = i;
  __syncthreads();
  return all;
}

// Adds sample i to row y: v0 and v1 lie in it, or v2 and v3.
template <typename acc_t, typename index_t>
__device__ __forceinline__ void add_to_row(const OrderedShared<acc_t, index_t>& shared, int i,
                                           index_t y, const acc_t* grad, index_t channel,
                                           acc_t* grad_pixels) {
  const int first = shared.y[i] == y ? 0 : 2;
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const index_t row = shared.plan.row[first + side][i];
    const acc_t weight = shared.plan.weight[first + side][i];
    if (row < 0 || weight == 0) continue;
    acc_t sum[4];
    load_run<4>(sum, grad_pixels + (row + channel));
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[j] += grad[j] * weight;
    store_run<4>(grad_pixels + (row + channel), sum);
  }
}

// lanes: threads side by side, each with 4 channels; a power of two. The others take further rows.
template <typename T, typename index_t>
__global__ void __launch_bounds__(kOrderedThreads, 4)
    deform_conv2d_ordered(const BackwardLaunch<T> launch, int lanes) {
  using acc_t = acc_of<T>;
  __shared__ OrderedShared<acc_t, index_t> shared;
  const Channels& channels = launch.forward.channels;
  const DeformConv2dShape& s = launch.forward.params.shape;
  const int rows = kOrderedThreads / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int64_t width = static_cast<int64_t>(channels.per_deformable) * channels.padded;
  const int64_t across = ceil_div(width, 4 * lanes), down = ceil_div(s.h, rows);
  const int64_t out_pixels = s.out_pixels(), end_pixel = launch.first_pixel + launch.pixels;
  const int64_t first_image = launch.first_pixel / out_pixels;
  const int64_t images = ceil_div(end_pixel, out_pixels) - first_image;
  const int64_t tiles = images * s.deformable_groups * down * across;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t in_group = (tile % across * lanes + lane) * 4;
    const int64_t first_row = tile / across % down * rows;
    const int64_t end_row = min(first_row + rows, s.h);
    const int64_t y = first_row + static_cast<int>(threadIdx.x) / lanes;
    const int64_t deformable_group = tile / across / down % s.deformable_groups;
    const int64_t image = first_image + tile / across / down / s.deformable_groups;
    const int64_t channel = deformable_group * width + in_group;
    const int64_t begin = max(launch.first_pixel, image * out_pixels);
    const int64_t end = min(end_pixel, (image + 1) * out_pixels);
    for (int64_t tap = 0; tap < s.taps(); ++tap) {
      for (int64_t first = begin; first < end; first += kOrderedThreads) {
        OutPixel<index_t> at = OutPixel<index_t>::at(s, first + threadIdx.x);
        at.exists = at.exists && first + threadIdx.x < end;
        const int hits = list_hits(launch.forward, at, static_cast<int>(deformable_group),
                                   static_cast<int>(tap), first_row, end_row, &shared);
        if (in_group >= width || y >= end_row) continue;
        for (int i = 0; i < hits; ++i) {
          const int hit = shared.hit[i];
          if (shared.y[hit] != y && shared.y[hit] + 1 != y) continue;
          const int64_t row = (first + hit - launch.first_pixel) * s.taps() + tap;
          acc_t grad[4];
          load_run<4>(grad, launch.grad_columns + row * channels.row + channel);
          add_to_row(shared, hit, static_cast<index_t>(y), grad, static_cast<index_t>(channel),
                     launch.grad_pixels);
        }
      }
    }
  }
}

}  // namespace cuda
}  // namespace paddle_ops

#pragma once
// Backward to weight and bias. grad_weight is a matrix product of grad_out and the sampled columns,
// which are sampled anew and, as in forward, never stored. Its inner dimension, the pixels, is by
// far its longest: several blocks share it, and their sums are added in a fixed order, in double.

#include "kernels/deform_conv2d_cuda_plan.cuh"

namespace paddle_ops {
namespace cuda {

template <typename T, typename index_t, typename Tile>
struct BackwardWeightShared {
  // Pixels that are planned together, for several steps.
  static constexpr int kPlanned = Tile::kThreads;
  typename Tile::Shared gemm;
  SamplePlan<acc_of<T>, index_t, kPlanned> plan[2];
  index_t grad_out[2][kPlanned];  // where the pixel lies in output 0 of its image; -1: nowhere
};

// Steps run over pixels. A: grad_out [pixel][output], B: the sampled columns of one unit and tap.
template <typename T, typename index_t, typename Tile>
struct PixelSource {
  using acc_t = acc_of<T>;
  using Shared = BackwardWeightShared<T, index_t, Tile>;
  static constexpr int kPlanned = Shared::kPlanned;
  static constexpr int kGrads = Tile::kM * Tile::kDepth / Tile::kThreads;
  static constexpr int kRow = Tile::kN / 4;  // vectors of channels of one pixel
  static constexpr int kVectors = Tile::kDepth * kRow;
  static constexpr int kEach = (kVectors + Tile::kThreads - 1) / Tile::kThreads;
  static_assert(kPlanned % Tile::kDepth == 0, "a step has one plan");

  const Launch<T>& launch;
  Shared* shared;
  int unit, tap, channel, output;
  int64_t pixel;         // of the next step
  int planned, in_plan;  // plans made; where the next step begins in its own
  T grad[kGrads];
  RawPack<T, 4> corner[kEach][4];

  __device__ __forceinline__ void plan(int64_t first) {
    const DeformConv2dShape& s = launch.params.shape;
    const int i = static_cast<int>(threadIdx.x);
    const auto at = OutPixel<index_t>::at(s, first + i);
    const auto sample = sample_of(launch, at, unit / launch.channels.per_deformable, tap, false);
    shared->plan[planned & 1].set(i, sample);
    shared->grad_out[planned & 1][i] = at.first(s);
    ++planned;
  }

  __device__ __forceinline__ int fetch() {
    const DeformConv2dShape& s = launch.params.shape;
    // As in forward: the next plan takes the place of the one before this.
    if (in_plan == 0) plan(pixel + kPlanned);
    const int group = unit / launch.channels.per_group;
    const int outputs = static_cast<int>(s.group_out());
    const int first_row = group * outputs;
#pragma unroll
    for (int i = 0; i < kGrads; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
      const int row = output + item / Tile::kDepth;
      const index_t at = shared->grad_out[planned & 1][in_plan + item % Tile::kDepth];
      grad[i] = T{};
      if (at >= 0 && row < outputs) {
        grad[i] = static_cast<const T*>(
            launch.params.grad_out.data)[at + static_cast<index_t>(first_row + row) *
                                                  static_cast<index_t>(s.out_pixels())];
      }
    }
    const auto& plan = shared->plan[planned & 1];
    const index_t in_row = static_cast<index_t>(unit) * launch.channels.padded;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
      const int at = channel + item % kRow * 4;
      const bool exists = item < kVectors && at < launch.channels.padded;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const index_t row = exists ? plan.row[k][in_plan + item / kRow] : index_t(-1);
        corner[i][k] = load_corner(launch.pixels, row, in_row + at);
      }
    }
    pixel += Tile::kDepth;
    return Tile::kDepth;
  }

  __device__ __forceinline__ void store(int buffer) {
#pragma unroll
    for (int i = 0; i < kGrads; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
      shared->gemm.a[buffer][item % Tile::kDepth][item / Tile::kDepth] =
          load_element<acc_t>(grad + i);
    }
    const auto& plan = shared->plan[planned & 1];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
      if (item >= kVectors) break;
      acc_t weight[4], v[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) weight[k] = plan.weight[k][in_plan + item / kRow];
      blend(weight, corner[i], v);
      store_run<4>(shared->gemm.b[buffer][item / kRow] + item % kRow * 4, v);
    }
    in_plan = (in_plan + Tile::kDepth) % kPlanned;
  }
};

// How the work on grad_weight is cut, by the shape alone.
struct WeightSplit {
  int64_t parts;   // that the pixels of a chunk are cut into
  int64_t pixels;  // of a part; whole plans, so that only the last part of all is cut
};

template <typename T, typename index_t, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 256 / Tile::kThreads)
    deform_conv2d_backward_weight(const Launch<T> launch, WeightSplit split, double* partial,
                                  bool first_chunk) {
  __shared__ BackwardWeightShared<T, index_t, Tile> shared;
  const Channels& channels = launch.channels;
  const DeformConv2dShape& s = launch.params.shape;
  const int64_t across = ceil_div(channels.padded, Tile::kN);
  const int64_t down = ceil_div(s.group_out(), Tile::kM);
  const int64_t tiles = split.parts * channels.units() * s.taps() * down * across;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int channel = static_cast<int>(tile % across) * Tile::kN;
    const int output = static_cast<int>(tile / across % down) * Tile::kM;
    const int tap = static_cast<int>(tile / across / down % s.taps());
    const int unit = static_cast<int>(tile / across / down / s.taps() % channels.units());
    const int64_t part = tile / across / down / s.taps() / channels.units();
    const int64_t begin = part * split.pixels;
    const int64_t end = min(begin + split.pixels, s.n * s.out_pixels());
    PixelSource<T, index_t, Tile> source{launch, &shared, unit, tap, channel, output,
                                         begin,  0,       0,    {},  {}};
    typename SumsOf<T, Tile, false, true>::type sums;
    sums.clear();
    source.plan(begin);
    __syncthreads();
    multiply<Tile>(shared.gemm, &source, static_cast<int>(ceil_div(end - begin, Tile::kDepth)),
                   &sums);
    const int64_t group = unit / channels.per_group, in_group = unit % channels.per_group;
    double* to = partial + part * s.o * s.group_in() * s.taps();
#pragma unroll
    for (int i = 0; i < sums.kRows; ++i) {
#pragma unroll
      for (int j = 0; j < sums.kColumns; ++j) {
        const int64_t o = output + sums.row(i, j), c = channel + sums.column(i, j);
        if (o >= s.group_out() || c >= channels.unit) continue;
        const int64_t row = (group * s.group_out() + o) * s.group_in();
        const int64_t at = (row + in_group * channels.unit + c) * s.taps() + tap;
        to[at] = (first_chunk ? 0.0 : to[at]) + sums.exact(i, j);
      }
    }
  }
}

// partial[part][output]: sums of grad_out over a part of its pixels.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    deform_conv2d_backward_bias(const T* grad_out, DeformConv2dShape s, int64_t parts,
                                double* partial) {
  __shared__ double sum[kBlockThreads];
  const int64_t pixels = s.n * s.out_pixels(), length = ceil_div(pixels, parts);
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t i = blockIdx.x; i < parts * s.o; i += gridDim.x) {
    const int64_t output = i % s.o, begin = i / s.o * length;
    const int64_t end = min(begin + length, pixels);
    double total = 0;
    for (int64_t at = begin + thread; at < end; at += kBlockThreads) {
      const int64_t row = at / s.out_pixels() * s.o + output;
      total += load_element<double>(grad_out + row * s.out_pixels() + at % s.out_pixels());
    }
    __syncthreads();
    sum[thread] = total;
    for (int step = kBlockThreads / 2; step > 0; step /= 2) {
      __syncthreads();
      if (thread < step) sum[thread] += sum[thread + step];
    }
    if (thread == 0) partial[i] = sum[0];
  }
}

// to[i] = sum over the parts of partial[part][i], in their order.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    sum_parts(const double* partial, int64_t parts, int64_t count, T* to) {
  grid_stride<int64_t>(count, [&](int64_t i) {
    double total = 0;
    for (int64_t part = 0; part < parts; ++part) total += partial[part * count + i];
    store_element(to + i, static_cast<acc_of<T>>(total));
  });
}

}  // namespace cuda
}  // namespace paddle_ops

#pragma once
// Forward: one matrix product of sampled columns and weights. The columns exist only as tiles in
// shared memory: a block samples kM pixels for one tap and a few channels at a time and multiplies
// them with the weights of kN outputs.

#include "kernels/deform_conv2d_cuda_plan.cuh"

namespace paddle_ops {
namespace cuda {

template <typename T, typename index_t, typename Tile>
struct ForwardShared {
  using Plan = SamplePlan<acc_of<T>, index_t, Tile::kM>;
  typename Tile::Shared gemm;
  Plan plan[2];
  index_t out[Tile::kM];  // where the pixel lies in output 0 of its image; -1: nowhere
};

// Steps run over units, taps and channels, in this order.
template <typename T, typename index_t, typename Tile>
struct ForwardSource {
  using acc_t = acc_of<T>;
  using Shared = ForwardShared<T, index_t, Tile>;
  static constexpr int kRow = Tile::kDepth / 4;  // vectors of channels of one pixel and step
  static constexpr int kEach = Tile::kM * kRow / Tile::kThreads;
  static_assert(Tile::kM * kRow % Tile::kThreads == 0, "all threads sample equally much");
  static_assert(Tile::kM <= Tile::kThreads, "a thread plans at most one pixel");

  const Launch<T>& launch;
  Shared* shared;
  OutPixel<index_t> pixel;  // that this thread plans for
  int first_output;         // within the group
  int unit, end;            // units from the next step's to the group's last
  int tap, channel;         // of the next step
  int planned;              // taps planned so far; each other one goes to the same place
  RawPack<T, 4> corner[kEach][4];
  MatrixB<T, Tile> weights;

  __device__ __forceinline__ void plan(int of_unit, int of_tap) {
    if (of_unit < end && static_cast<int>(threadIdx.x) < Tile::kM) {
      const int deformable_group = of_unit / launch.channels.per_deformable;
      shared->plan[planned & 1].set(static_cast<int>(threadIdx.x),
                                    sample_of(launch, pixel, deformable_group, of_tap, false));
    }
    ++planned;
  }

  __device__ __forceinline__ int fetch() {
    const Channels& channels = launch.channels;
    const int taps = static_cast<int>(launch.params.shape.taps());
    // The next tap's plan must be there when the next step begins. It takes the place of the tap
    // before this one, which nobody reads any more.
    if (channel == 0) {
      const bool last = tap + 1 == taps;
      plan(last ? unit + 1 : unit, last ? 0 : tap + 1);
    }
    const auto& plan = shared->plan[planned & 1];
    const int64_t in_row = static_cast<int64_t>(unit) * channels.padded + channel;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
      const int at = item % kRow * 4, m = item / kRow;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const index_t row = channel + at < channels.padded ? plan.row[k][m] : index_t(-1);
        corner[i][k] = load_corner(launch.pixels, row, static_cast<index_t>(in_row + at));
      }
    }
    const int outputs = static_cast<int>(round_up(launch.params.shape.group_out(), 4));
    const int64_t matrix = (static_cast<int64_t>(unit) * taps + tap) * channels.padded * outputs;
    weights.fetch(launch.weight + matrix, channel, channels.padded, first_output, outputs);
    return advance();
  }

  // To the next step; returns the depth of this one.
  __device__ __forceinline__ int advance() {
    const int depth = min(Tile::kDepth, launch.channels.padded - channel);
    channel += Tile::kDepth;
    if (channel >= launch.channels.padded) {
      channel = 0;
      if (++tap == static_cast<int>(launch.params.shape.taps())) {
        tap = 0;
        ++unit;
      }
    }
    return depth;
  }

  __device__ __forceinline__ void store(int buffer) {
    const auto& plan = shared->plan[planned & 1];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
      const int at = item % kRow * 4, m = item / kRow;
      acc_t weight[4], v[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) weight[k] = plan.weight[k][m];
      blend(weight, corner[i], v);
#pragma unroll
      for (int j = 0; j < 4; ++j) shared->gemm.a[buffer][at + j][m] = v[j];
    }
    weights.store(&shared->gemm, buffer);
  }
};

// Writes the block's tile, with bias, rounded once.
template <typename T, typename index_t, typename Sums, typename Shared>
__device__ __forceinline__ void store_outputs(const DeformConv2dParams& p, const Shared& shared,
                                              int64_t group, int first_output, const Sums& sums) {
  const DeformConv2dShape& s = p.shape;
#pragma unroll
  for (int i = 0; i < Sums::kRows; ++i) {
#pragma unroll
    for (int j = 0; j < Sums::kColumns; ++j) {
      const index_t first = shared.out[Sums::row(i, j)];
      const int in_group = first_output + Sums::column(i, j);
      if (first < 0 || in_group >= s.group_out()) continue;
      const index_t output = static_cast<index_t>(group * s.group_out() + in_group);
      acc_of<T> value = sums.at(i, j);
      if (p.bias.data != nullptr) {
        value += load_element<acc_of<T>>(static_cast<const T*>(p.bias.data) + output);
      }
      T* to = static_cast<T*>(p.out.data) + first;
      store_element(to + output * static_cast<index_t>(s.out_pixels()), value);
    }
  }
}

template <typename T, typename index_t, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 256 / Tile::kThreads)
    deform_conv2d_forward(const Launch<T> launch) {
  __shared__ ForwardShared<T, index_t, Tile> shared;
  const DeformConv2dShape& s = launch.params.shape;
  const int64_t across = ceil_div(s.group_out(), Tile::kN);
  const int64_t tiles = ceil_div(s.n * s.out_pixels(), Tile::kM) * s.groups * across;
  const int chunks = (launch.channels.padded + Tile::kDepth - 1) / Tile::kDepth;
  // Neighbouring blocks sample the same pixels, for other outputs.
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int first_output = static_cast<int>(tile % across) * Tile::kN;
    const int64_t group = tile / across % s.groups;
    const int64_t first_pixel = tile / across / s.groups * Tile::kM;
    const int unit = static_cast<int>(group) * launch.channels.per_group;
    const int end = unit + launch.channels.per_group;
    const auto pixel = OutPixel<index_t>::at(s, first_pixel + threadIdx.x);
    ForwardSource<T, index_t, Tile> source{launch, &shared, pixel, first_output, unit, end,
                                           0,      0,       0,     {},           {}};
    // The columns are no half types.
    typename SumsOf<T, Tile, true, false>::type sums;
    sums.clear();
    __syncthreads();  // the tile before is finished
    if (static_cast<int>(threadIdx.x) < Tile::kM) shared.out[threadIdx.x] = pixel.first(s);
    source.plan(unit, 0);
    __syncthreads();
    multiply<Tile>(shared.gemm, &source, (end - unit) * static_cast<int>(s.taps()) * chunks, &sums);
    store_outputs<T, index_t>(launch.params, shared, group, first_output, sums);
  }
}

}  // namespace cuda
}  // namespace paddle_ops

#pragma once
// Backward to x, offset and mask. A block has kM output pixels, one tap and one deformable group.
// For kN channels at a time it forms the gradient of the sampled columns, a matrix product of
// grad_out and weights, and goes once over the samples: the four neighbours give the dot products
// from which grad_offset and grad_mask follow, and grad_x gets its share by atomic additions. As
// the block has all channels of its samples, the dot products need none.

#include "kernels/deform_conv2d_cuda_plan.cuh"

namespace paddle_ops {
namespace cuda {

// What backward adds to a launch. `pixels` may be null where only grad_x is wanted.
template <typename T>
struct BackwardLaunch {
  Launch<T> forward;
  acc_of<T>* grad_pixels;  // [n, h * w, channels.row], added to; null when grad_x is not wanted
  acc_of<T>*
      grad_columns;  // [pixel - first_pixel, tap, channels.row]: written instead, when not null
  int64_t first_pixel, pixels;  // output pixels of this launch
  bool want_offset;             // or mask
};

template <typename T, typename index_t, typename Tile>
struct BackwardDataShared {
  using acc_t = acc_of<T>;
  union {
    typename Tile::Shared gemm;
    alignas(16) acc_t grad_column[Tile::kM][Tile::kN + 4];
  };
  SamplePlan<acc_t, index_t, Tile::kM> plan;  // weights without the mask
  acc_t mask[Tile::kM];
  double dot[Tile::kM][4];     // sums over the channels of grad_column times v0..v3
  index_t grad_out[Tile::kM];  // where the pixel lies in output 0 of its image; -1: nowhere
};

// Steps run over the outputs of a group. A: grad_out, B: weight [output][channel].
template <typename T, typename index_t, typename Tile>
struct GradColumnSource {
  using acc_t = acc_of<T>;
  using Shared = BackwardDataShared<T, index_t, Tile>;
  static constexpr int kEach = Tile::kM * Tile::kDepth / Tile::kThreads;
  static_assert(Tile::kM * Tile::kDepth % Tile::kThreads == 0, "all threads load equally much");

  const Launch<T>& launch;
  Shared* shared;
  const T* weight;    // the matrix of this unit and tap
  int64_t first_row;  // the group's first output
  int channel, output;
  T grad[kEach];
  MatrixB<T, Tile> weights;

  __device__ __forceinline__ int fetch() {
    const DeformConv2dShape& s = launch.params.shape;
    const int outputs = static_cast<int>(s.group_out());
    const T* grad_out = static_cast<const T*>(launch.params.grad_out.data);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
      const int row = output + item / Tile::kM;
      const index_t at = shared->grad_out[item % Tile::kM];
      grad[i] = T{};
      if (at >= 0 && row < outputs) {
        grad[i] = grad_out[at + static_cast<index_t>(first_row + row) *
                                    static_cast<index_t>(s.out_pixels())];
      }
    }
    weights.fetch(weight, output, outputs, channel, launch.channels.padded);
    const int depth = min(Tile::kDepth, static_cast<int>(round_up(outputs - output, 4)));
    output += Tile::kDepth;
    return depth;
  }

  __device__ __forceinline__ void store(int buffer) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
      shared->gemm.a[buffer][item / Tile::kM][item % Tile::kM] = load_element<acc_t>(grad + i);
    }
    weights.store(&shared->gemm, buffer);
  }
};

__device__ __forceinline__ void add_pack(float* to, const float* v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && CUDART_VERSION >= 12010
  atomicAdd(reinterpret_cast<float4*>(to), float4{v[0], v[1], v[2], v[3]});
#else
#pragma unroll
  for (int j = 0; j < 4; ++j) atomicAdd(to + j, v[j]);
#endif
}
__device__ __forceinline__ void add_pack(double* to, const double* v) {
#pragma unroll
  for (int j = 0; j < 4; ++j) atomicAdd(to + j, v[j]);
}

// One pixel's share of 4 channels, of which the first is `channel`: grad_x, or grad_columns. dot
// gets the products with the four neighbours.
template <typename T, typename index_t, typename Tile>
__device__ __forceinline__ void backward_sample(const BackwardLaunch<T>& launch,
                                                const BackwardDataShared<T, index_t, Tile>& shared,
                                                int m, const acc_of<T>* grad, index_t channel,
                                                acc_of<T>* dot) {
  using acc_t = acc_of<T>;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const index_t row = shared.plan.row[k][m];
    if (launch.want_offset) {
      const RawPack<T, 4> corner = load_corner(launch.forward.pixels, row, channel);
#pragma unroll
      for (int j = 0; j < 4; ++j) dot[k] += grad[j] * load_element<acc_t>(corner.v + j);
    }
    const acc_t weight = shared.plan.weight[k][m] * shared.mask[m];
    // Offsets start as zeros: three of four neighbours have no weight then.
    if (launch.grad_pixels == nullptr || launch.grad_columns != nullptr || row < 0 || weight == 0) {
      continue;
    }
    acc_t share[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) share[j] = grad[j] * weight;
    add_pack(launch.grad_pixels + (row + channel), share);
  }
}

// Goes over the samples of kN channels of a unit, whose column gradients lie in shared memory.
template <typename T, typename index_t, typename Tile>
__device__ __forceinline__ void backward_samples(const BackwardLaunch<T>& launch,
                                                 BackwardDataShared<T, index_t, Tile>* shared,
                                                 int64_t first_pixel, int unit, int tap,
                                                 int channel) {
  using acc_t = acc_of<T>;
  const Channels& channels = launch.forward.channels;
  constexpr int kLanes = Tile::kN / 4;  // threads of one pixel
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t in_row = static_cast<int64_t>(unit) * channels.padded + channel + 4 * lane;
  const bool exists = channel + 4 * lane < channels.padded;
  for (int m = static_cast<int>(threadIdx.x) / kLanes; m < Tile::kM; m += Tile::kThreads / kLanes) {
    acc_t dot[4] = {};
    if (exists && shared->grad_out[m] >= 0) {
      const RawPack<acc_t, 4>& grad =
          *reinterpret_cast<const RawPack<acc_t, 4>*>(shared->grad_column[m] + 4 * lane);
      if (launch.grad_columns != nullptr) {
        const int64_t at =
            (first_pixel + m - launch.first_pixel) * launch.forward.params.shape.taps() + tap;
        acc_t* to = launch.grad_columns + at * channels.row + in_row;
        *reinterpret_cast<RawPack<acc_t, 4>*>(to) = grad;
      }
      backward_sample(launch, *shared, m, grad.v, static_cast<index_t>(in_row), dot);
    }
    if (!launch.want_offset) continue;
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
#pragma unroll
      for (int k = 0; k < 4; ++k) dot[k] += __shfl_xor_sync(~0u, dot[k], step);
    }
    if (lane == 0) {
#pragma unroll
      for (int k = 0; k < 4; ++k) shared->dot[m][k] += dot[k];
    }
  }
}

// grad_offset and grad_mask of a pixel from its dot products.
template <typename T, typename index_t>
__device__ __forceinline__ void store_offset_grads(const DeformConv2dParams& p,
                                                   const OutPixel<index_t>& at,
                                                   const Sample<acc_of<T>, index_t>& sample,
                                                   int64_t deformable_group, int tap,
                                                   const double* dot) {
  const DeformConv2dShape& s = p.shape;
  const double lx = sample.lx, ly = sample.ly, mask = sample.mask;
  // Chosen, not multiplied: an infinite gradient must not show where nothing was sampled.
  const double dy = bilinear_slope_y(lx, dot[0], dot[1], dot[2], dot[3]) * mask;
  const double dx = bilinear_slope_x(ly, dot[0], dot[1], dot[2], dot[3]) * mask;
  const double dm = bilinear_value(sample.weight, dot[0], dot[1], dot[2], dot[3]);
  const int64_t row = (at.image * s.deformable_groups + deformable_group) * s.taps() + tap;
  const auto store = [&](MutableData to, int64_t to_row, double value) {
    if (to.data == nullptr) return;
    const int64_t element = to_row * s.out_pixels() + at.pixel;
    if (sizeof(T) == 2 && to.dtype == DType::kFloat32) {
      static_cast<float*>(to.data)[element] = static_cast<float>(value);
    } else {
      store_element(static_cast<T*>(to.data) + element, static_cast<acc_of<T>>(value));
    }
  };
  store(p.grad_offset, 2 * row, sample.reached ? dy : 0.0);
  store(p.grad_offset, 2 * row + 1, sample.reached ? dx : 0.0);
  store(p.grad_mask, row, sample.inside ? dm : 0.0);
}

// The block's part of one tile: all channels of a deformable group.
template <typename T, typename index_t, typename Tile>
__device__ __forceinline__ void backward_tile(const BackwardLaunch<T>& launch,
                                              BackwardDataShared<T, index_t, Tile>* shared,
                                              int64_t first_pixel, int deformable_group, int tap) {
  const Channels& channels = launch.forward.channels;
  const DeformConv2dShape& s = launch.forward.params.shape;
  const int64_t matrix = s.group_out() * channels.padded;
  const int steps = static_cast<int>(ceil_div(s.group_out(), Tile::kDepth));
  const int first = deformable_group * channels.per_deformable;
  for (int unit = first; unit < first + channels.per_deformable; ++unit) {
    for (int channel = 0; channel < channels.padded; channel += Tile::kN) {
      GradColumnSource<T, index_t, Tile> source{
          launch.forward,
          shared,
          launch.forward.weight + (unit * s.taps() + tap) * matrix,
          unit / channels.per_group * s.group_out(),
          channel,
          0,
          {},
          {}};
      typename SumsOf<T, Tile, false, false>::type sums;
      sums.clear();
      __syncthreads();  // the column gradients before are done with
      multiply<Tile>(shared->gemm, &source, steps, &sums);
      __syncthreads();  // they take the operands' place
#pragma unroll
      for (int i = 0; i < sums.kRows; ++i) {
#pragma unroll
        for (int j = 0; j < sums.kColumns; ++j) {
          shared->grad_column[sums.row(i, j)][sums.column(i, j)] = sums.at(i, j);
        }
      }
      __syncthreads();
      backward_samples(launch, shared, first_pixel, unit, tap, channel);
    }
  }
}

template <typename T, typename index_t, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 256 / Tile::kThreads)
    deform_conv2d_backward_data(const BackwardLaunch<T> launch) {
  __shared__ BackwardDataShared<T, index_t, Tile> shared;
  static_assert(Tile::kM <= Tile::kThreads, "a thread plans at most one pixel");
  const DeformConv2dParams& p = launch.forward.params;
  const DeformConv2dShape& s = p.shape;
  const int64_t taps = s.taps(), end = launch.first_pixel + launch.pixels;
  const int64_t tiles = ceil_div(launch.pixels, Tile::kM) * s.deformable_groups * taps;
  const int m = static_cast<int>(threadIdx.x);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int tap = static_cast<int>(tile % taps);
    const int deformable_group = static_cast<int>(tile / taps % s.deformable_groups);
    const int64_t first_pixel = launch.first_pixel + tile / taps / s.deformable_groups * Tile::kM;
    OutPixel<index_t> at = OutPixel<index_t>::at(s, first_pixel + m);
    at.exists = at.exists && first_pixel + m < end && m < Tile::kM;
    const bool slope_at_border = p.boundary_grad == BoundaryGrad::kTorchvision;
    __syncthreads();  // the tile before is finished
    if (m < Tile::kM) {
      const auto sample = sample_of(launch.forward, at, deformable_group, tap, slope_at_border);
      for (int k = 0; k < 4; ++k) {
        shared.plan.row[k][m] = sample.row[k];
        shared.plan.weight[k][m] = sample.weight[k];
        shared.dot[m][k] = 0;
      }
      shared.mask[m] = sample.mask;
      shared.grad_out[m] = at.first(s);
    }
    backward_tile(launch, &shared, first_pixel, deformable_group, tap);
    __syncthreads();
    if (launch.want_offset && at.exists) {
      // Once more, for all those numbers would have to be kept.
      const auto sample = sample_of(launch.forward, at, deformable_group, tap, slope_at_border);
      store_offset_grads<T>(p, at, sample, deformable_group, tap, shared.dot[m]);
    }
  }
}

}  // namespace cuda
}  // namespace paddle_ops

#pragma once
// CUDA kernels of sigmoid_cross_entropy_with_logits.
//
// A thread takes a pack of neighbouring elements, 128 bits of x. x and what has its type are known
// at compile time; the types of label and pos_weight are looked up at run time, alike in the whole
// grid, which spares most instances. With normalize one kernel counts into the workspace and the
// next ones read the count there: the host never waits.
//
// Without pos_weight the formulas are those of log1p with w = 1, so that there are two forms here.

#include <cstdint>
#include <type_traits>

#include "kernels/common/launch.cuh"
#include "kernels/common/pack.cuh"
#include "kernels/sigmoid_cross_entropy_with_logits.h"

namespace paddle_ops {
namespace cuda {
namespace sce {

using Count = unsigned long long;  // the type that atomicAdd knows

constexpr int kWarpThreads = 32;
constexpr int64_t kMostCountBlocks = 1024;  // each ends with an addition to the same address
constexpr int kLabelPack = 4;               // elements that count_kernel reads at once

// -- counting -------------------------------------------------------------------------------------

// The sum over a block, for its first thread. `parts` is shared, one for each warp.
__device__ __forceinline__ Count block_sum(Count v, Count* parts) {
  for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2) {
    v += __shfl_down_sync(0xffffffffu, v, lanes);
  }
  if (threadIdx.x % kWarpThreads == 0) parts[threadIdx.x / kWarpThreads] = v;
  __syncthreads();
  if (threadIdx.x != 0) return 0;
  Count sum = 0;
  for (unsigned warp = 0; warp < blockDim.x / kWarpThreads; ++warp) sum += parts[warp];
  return sum;
}

// Adds the number of elements that are not ignored, among kCount * packs from `first` on, to *kept.
// They are integers: the order of addition does not matter.
template <typename acc_t, int kCount, typename index_t>
__global__ void __launch_bounds__(kBlockThreads)
    count_kernel(ConstData label, int ignore_index, index_t first, index_t packs, Count* kept) {
  __shared__ Count parts[kBlockThreads / kWarpThreads];
  Count mine = 0;
  grid_stride(packs, [&](index_t i) {
    Pack<acc_t, kCount> y;
    y.load(label, first + i * kCount);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      mine += sce_ignored(y.at[k], static_cast<acc_t>(ignore_index)) ? 0 : 1;
    }
  });
  const Count sum = block_sum(mine, parts);
  if (threadIdx.x == 0) atomicAdd(kept, sum);
}

// -- the passes -----------------------------------------------------------------------------------

// The inputs of one pack; an absent one is a number.
template <typename T, typename acc_t, int kCount>
struct Inputs {
  Pack<acc_t, kCount> x, y, w, g, u, v, t;

  __device__ __forceinline__ SceElement<acc_t> at(int i) const {
    return {x.at[i], y.at[i], w.at[i], g.at[i], u.at[i], v.at[i], t.at[i]};
  }

  // Of x's type.
  template <typename index_t>
  static __device__ __forceinline__ void read_like_x(Pack<acc_t, kCount>* into, ConstData tensor,
                                                     index_t start) {
    if (tensor.data == nullptr) return into->fill(0);
    into->load_as(static_cast<const T*>(tensor.data) + start);
  }

  template <typename index_t>
  static __device__ __forceinline__ void read(Pack<acc_t, kCount>* into, ConstData tensor,
                                              index_t start, acc_t absent) {
    if (tensor.data == nullptr) return into->fill(absent);
    into->load(tensor, start);
  }
};

// target[start + i] = compute(i), if that result is wanted
template <typename T, typename acc_t, int kCount, typename index_t, typename Compute>
__device__ __forceinline__ void write_like_x(MutableData target, index_t start,
                                             const Compute& compute) {
  if (target.data == nullptr) return;
  Pack<acc_t, kCount> values;
#pragma unroll
  for (int i = 0; i < kCount; ++i) values.at[i] = compute(i);
  values.store_as(static_cast<T*>(target.data) + start);
}

template <typename acc_t, int kCount, typename index_t, typename Compute>
__device__ __forceinline__ void write(MutableData target, index_t start, const Compute& compute) {
  if (target.data == nullptr) return;
  Pack<acc_t, kCount> values;
#pragma unroll
  for (int i = 0; i < kCount; ++i) values.at[i] = compute(i);
  values.store(target, start);
}

using Params = SigmoidCrossEntropyParams;

struct Forward {
  static constexpr int kMostElements = 8;  // of a pack

  template <PosWeightForm form, typename T, typename acc_t, int kCount, typename index_t>
  static __device__ __forceinline__ void run(const Params& p, SceScalars<acc_t> s, index_t start,
                                             const Inputs<T, acc_t, kCount>& in) {
    write_like_x<T, acc_t, kCount>(
        p.out, start, [&](int i) { return sce_out<form>(in.x.at[i], in.y.at[i], in.w.at[i], s); });
  }
};

struct Backward {
  static constexpr int kMostElements = 8;

  template <PosWeightForm form, typename T, typename acc_t, int kCount, typename index_t>
  static __device__ __forceinline__ void run(const Params& p, SceScalars<acc_t> s, index_t start,
                                             const Inputs<T, acc_t, kCount>& in) {
    write_like_x<T, acc_t, kCount>(p.grad_x, start, [&](int i) {
      return sce_backward_x<form>(in.x.at[i], in.y.at[i], in.w.at[i], in.g.at[i], s);
    });
    write<acc_t, kCount>(p.grad_label, start, [&](int i) {
      return sce_backward_label(in.x.at[i], in.y.at[i], in.g.at[i], s);
    });
    write<acc_t, kCount>(p.grad_pos_weight, start, [&](int i) {
      return sce_backward_pos_weight<form>(in.x.at[i], in.y.at[i], in.g.at[i], s);
    });
  }
};

struct DoubleBackward {
  static constexpr int kMostElements = 4;  // seven inputs of a pack fill the registers

  template <PosWeightForm form, typename T, typename acc_t, int kCount, typename index_t>
  static __device__ __forceinline__ void run(const Params& p, SceScalars<acc_t> s, index_t start,
                                             const Inputs<T, acc_t, kCount>& in) {
    write_like_x<T, acc_t, kCount>(p.grad_grad_out, start,
                                   [&](int i) { return sce_second_grad_out<form>(in.at(i), s); });
    write_like_x<T, acc_t, kCount>(p.grad_x, start,
                                   [&](int i) { return sce_second_x<form>(in.at(i), s); });
    write<acc_t, kCount>(p.grad_label, start, [&](int i) { return sce_second_label(in.at(i), s); });
    write<acc_t, kCount>(p.grad_pos_weight, start,
                         [&](int i) { return sce_second_pos_weight<form>(in.at(i), s); });
  }
};

// kCount * packs elements from `first` on. kept: from count_kernel, or null without normalize.
template <typename Pass, typename T, typename acc_t, int kCount, typename index_t>
__global__ void __launch_bounds__(kBlockThreads)
    pass_kernel(Params p, index_t first, index_t packs, const Count* kept) {
  __shared__ acc_t scale;  // one division in double for a block, not for each thread
  if (threadIdx.x == 0) {
    scale = kept == nullptr ? acc_t(1) : sce_scale<acc_t>(static_cast<int64_t>(*kept));
  }
  __syncthreads();
  const SceScalars<acc_t> s{static_cast<acc_t>(p.ignore_index), scale};
  grid_stride(packs, [&](index_t pack) {
    const index_t start = first + pack * kCount;
    Inputs<T, acc_t, kCount> in;
    in.read_like_x(&in.x, p.x, start);
    in.read(&in.y, p.label, start, acc_t(0));
    in.read(&in.w, p.pos_weight, start, acc_t(1));
    in.read_like_x(&in.g, p.grad_out, start);
    in.read_like_x(&in.u, p.grad_grad_x, start);
    in.read(&in.v, p.grad_grad_label, start, acc_t(0));
    in.read(&in.t, p.grad_grad_pos_weight, start, acc_t(0));
    if (p.form == PosWeightForm::kSoftplus) {
      Pass::template run<PosWeightForm::kSoftplus>(p, s, start, in);
    } else {
      Pass::template run<PosWeightForm::kLog1p>(p, s, start, in);
    }
  });
}

// -- launches -------------------------------------------------------------------------------------

inline int64_t workspace_bytes(const Params& p) {
  return p.normalize ? static_cast<int64_t>(sizeof(Count)) : 0;
}

inline bool aligned(const void* data, DType dtype, int count) {
  return reinterpret_cast<uintptr_t>(data) % pack_alignment(dtype, count) == 0;
}

// True if every tensor can be moved in packs of `count`; an absent one is at 0.
inline bool all_aligned(const Params& p, int count) {
  const ConstData inputs[] = {p.x,           p.label,           p.pos_weight,          p.grad_out,
                              p.grad_grad_x, p.grad_grad_label, p.grad_grad_pos_weight};
  const MutableData outputs[] = {p.out, p.grad_x, p.grad_label, p.grad_pos_weight, p.grad_grad_out};
  bool all = true;
  for (const ConstData& tensor : inputs) all &= aligned(tensor.data, tensor.dtype, count);
  for (const MutableData& tensor : outputs) all &= aligned(tensor.data, tensor.dtype, count);
  return all;
}

// run(packs of kCount) for as many elements as possible, then single ones for the rest.
template <int kCount, typename index_t, typename Run>
cudaError_t in_packs(int64_t count, bool aligned, const Run& run) {
  const int64_t packs = aligned ? count / kCount : 0;
  const int64_t rest = count - packs * kCount;
  cudaError_t error = cudaSuccess;
  if (packs > 0) {
    error = run(std::integral_constant<int, kCount>(), index_t(0), static_cast<index_t>(packs));
  }
  if (rest > 0 && error == cudaSuccess) {
    error = run(std::integral_constant<int, 1>(), static_cast<index_t>(packs * kCount),
                static_cast<index_t>(rest));
  }
  return error;
}

template <typename acc_t, typename index_t>
cudaError_t count_kept(const Params& p, Count* kept, cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(kept, 0, sizeof(Count), stream);
  if (error != cudaSuccess) return error;
  return in_packs<kLabelPack, index_t>(
      p.count, aligned(p.label.data, p.label.dtype, kLabelPack),
      [&](auto size, index_t first, index_t packs) {
        return launch(count_kernel<acc_t, size(), index_t>,
                      grid_size(packs, kBlockThreads, kMostCountBlocks), kBlockThreads, 0, stream,
                      p.label, p.ignore_index, first, packs, kept);
      });
}

template <typename Pass, typename T, typename acc_t, typename index_t>
cudaError_t launch_pass(const Params& p, void* workspace, cudaStream_t stream) {
  constexpr int kWord = kWordBytes / static_cast<int>(sizeof(T));
  constexpr int kCount = kWord < Pass::kMostElements ? kWord : Pass::kMostElements;
  Count* kept = nullptr;
  if (p.normalize) {
    kept = static_cast<Count*>(workspace);
    const cudaError_t error = count_kept<acc_t, index_t>(p, kept, stream);
    if (error != cudaSuccess) return error;
  }
  return in_packs<kCount, index_t>(
      p.count, all_aligned(p, kCount), [&](auto size, index_t first, index_t packs) {
        return launch(pass_kernel<Pass, T, acc_t, size(), index_t>, grid_size(packs), kBlockThreads,
                      0, stream, p, first, packs, kept);
      });
}

template <typename Pass, typename T, typename acc_t>
cudaError_t run_width(const Params& p, void* workspace, cudaStream_t stream) {
  return uses_int32(p) ? launch_pass<Pass, T, acc_t, int32_t>(p, workspace, stream)
                       : launch_pass<Pass, T, acc_t, int64_t>(p, workspace, stream);
}

// workspace: workspace_bytes(p) bytes of device memory. Tensors that go with x (out, grad_out,
// grad_x, grad_grad_x and grad_grad_out) have its type.
template <typename Pass>
cudaError_t run(const Params& p, void* workspace, cudaStream_t stream) {
  switch (p.x.dtype) {
    case DType::kFloat64:
      return run_width<Pass, double, double>(p, workspace, stream);
    case DType::kFloat16:
      return run_width<Pass, Float16, float>(p, workspace, stream);
    case DType::kBFloat16:
      return run_width<Pass, BFloat16, float>(p, workspace, stream);
    default:
      return run_width<Pass, float, float>(p, workspace, stream);
  }
}

}  // namespace sce
}  // namespace cuda
}  // namespace paddle_ops

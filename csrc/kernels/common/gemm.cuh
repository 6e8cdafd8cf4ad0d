#pragma once
// The matrix product that the convolution's kernels have in common: one block forms a tile
// [kM, kN] of A^T B, with steps of the inner dimension going through shared memory. Where the
// elements of A and B come from is the caller's: most of them are computed on the way in.

#include "kernels/common/launch.cuh"

namespace paddle_ops {
namespace cuda {

// Elements as they are in memory, loaded and stored at once.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) RawPack {
  T v[kCount];
};

// A thread forms kTM x kTN elements of the tile, in runs of at most 4: what the threads of a warp
// read at once from shared memory then lies together.
template <typename T, int kM_, int kN_, int kTM_, int kTN_>
struct GemmTile {
  using acc_t = T;
  static constexpr int kM = kM_, kN = kN_, kTM = kTM_, kTN = kTN_;
  static constexpr int kAcross = kN / kTN;
  static constexpr int kThreads = kM / kTM * kAcross;
  static constexpr int kDepth = 64 / static_cast<int>(sizeof(T));  // of one step

  // Rows are 4 elements longer than needed, which spreads a column over the banks.
  struct Shared {
    alignas(16) acc_t a[2][kDepth][kM + 4];
    alignas(16) acc_t b[2][kDepth][kN + 4];
  };

  // Where element i of the thread's rows, or columns, lies in the tile.
  static __device__ __forceinline__ int row(int i) {
    constexpr int kRun = kTM < 4 ? kTM : 4;
    return i / kRun * (kM / (kTM / kRun)) + static_cast<int>(threadIdx.x) / kAcross * kRun +
           i % kRun;
  }
  static __device__ __forceinline__ int column(int j) {
    constexpr int kRun = kTN < 4 ? kTN : 4;
    return j / kRun * (kN / (kTN / kRun)) + static_cast<int>(threadIdx.x) % kAcross * kRun +
           j % kRun;
  }
};

template <int kRun, typename acc_t>
__device__ __forceinline__ void load_run(acc_t* to, const acc_t* from) {
  using Run = RawPack<acc_t, kRun>;
  const Run run = *reinterpret_cast<const Run*>(from);
#pragma unroll
  for (int i = 0; i < kRun; ++i) to[i] = run.v[i];
}

template <int kRun, typename acc_t>
__device__ __forceinline__ void store_run(acc_t* to, const acc_t* from) {
  RawPack<acc_t, kRun> run;
#pragma unroll
  for (int i = 0; i < kRun; ++i) run.v[i] = from[i];
  *reinterpret_cast<RawPack<acc_t, kRun>*>(to) = run;
}

// The thread's part of the tile. A plain float sum loses digits as it grows, however small its
// terms; so every kBlockTerms terms, `low` is added to `high`, and what that addition rounds off
// stays behind in `low`. The result is as good as a sum of kBlockTerms terms, whatever the length:
// 64 equal ones, where every rounding goes the same way, are off by 1e-6.
template <typename Tile>
struct GemmSums {
  using acc_t = typename Tile::acc_t;
  static constexpr bool kTwoParts = sizeof(acc_t) == 4;
  static constexpr int kBlockTerms = 64;
  static constexpr int kRows = Tile::kTM, kColumns = Tile::kTN;

  acc_t low[Tile::kTM][Tile::kTN], high[Tile::kTM][Tile::kTN];
  int terms;

  __device__ __forceinline__ void clear() {
    terms = 0;
#pragma unroll
    for (int i = 0; i < Tile::kTM; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kTN; ++j) low[i][j] = high[i][j] = 0;
    }
  }

  // depth: a multiple of 4
  __device__ __forceinline__ void add(const typename Tile::Shared& shared, int buffer, int depth) {
    constexpr int kRunM = Tile::kTM < 4 ? Tile::kTM : 4, kRunN = Tile::kTN < 4 ? Tile::kTN : 4;
    for (int first = 0; first < depth; first += 4) {
#pragma unroll
      for (int k = first; k < first + 4; ++k) {
        acc_t a[Tile::kTM], b[Tile::kTN];
#pragma unroll
        for (int i = 0; i < Tile::kTM; i += kRunM) {
          load_run<kRunM>(a + i, shared.a[buffer][k] + Tile::row(i));
        }
#pragma unroll
        for (int j = 0; j < Tile::kTN; j += kRunN) {
          load_run<kRunN>(b + j, shared.b[buffer][k] + Tile::column(j));
        }
#pragma unroll
        for (int i = 0; i < Tile::kTM; ++i) {
#pragma unroll
          for (int j = 0; j < Tile::kTN; ++j) low[i][j] += a[i] * b[j];
        }
      }
    }
    count(depth);
  }

  __device__ __forceinline__ void count(int depth) {
    terms += depth;
    if (kTwoParts && terms >= kBlockTerms) settle();
  }

  __device__ __forceinline__ void settle() {
    terms = 0;
#pragma unroll
    for (int i = 0; i < Tile::kTM; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kTN; ++j) {
        const acc_t sum = high[i][j] + low[i][j];
        const acc_t rest = low[i][j] - (sum - high[i][j]);
        low[i][j] = rest == rest ? rest : acc_t(0);  // an infinite sum has none
        high[i][j] = sum;
      }
    }
  }

  // Sum (i, j) of the thread, and where it lies in the tile.
  static __device__ __forceinline__ int row(int i, int) { return Tile::row(i); }
  static __device__ __forceinline__ int column(int, int j) { return Tile::column(j); }
  __device__ __forceinline__ acc_t at(int i, int j) const {
    return kTwoParts ? high[i][j] + low[i][j] : low[i][j];
  }
  __device__ __forceinline__ double exact(int i, int j) const {
    return static_cast<double>(low[i][j]) + (kTwoParts ? static_cast<double>(high[i][j]) : 0.0);
  }
};

// Source::fetch() reads the next step into registers and returns its depth; Source::store(buffer)
// puts it into shared memory, with zeros beyond the depth. While one step is multiplied, the next
// one is on its way.
template <typename Tile, typename Source, typename Sums>
__device__ __forceinline__ void multiply(const typename Tile::Shared& shared, Source* source,
                                         int steps, Sums* sums) {
  if (steps <= 0) return;
  int depth = source->fetch();
  source->store(0);
  for (int step = 0; step < steps; ++step) {
    // All have stored this step, and are done with the one before, whose place is taken next.
    __syncthreads();
    int next = 0;
    if (step + 1 < steps) next = source->fetch();
    sums->add(shared, step & 1, depth);
    if (step + 1 < steps) source->store((step + 1) & 1);
    depth = next;
  }
}

// Rows [first_row, first_row + kDepth) and columns [first_column, first_column + kN) of a matrix in
// global memory, as B; zeros beyond its edges. Its row length is a multiple of 4.
template <typename T, typename Tile>
struct MatrixB {
  static constexpr int kVectors = Tile::kDepth * Tile::kN / 4;
  static constexpr int kEach = (kVectors + Tile::kThreads - 1) / Tile::kThreads;
  RawPack<T, 4> held[kEach];

  __device__ __forceinline__ void fetch(const T* matrix, int first_row, int rows, int first_column,
                                        int columns) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
      const int row = first_row + item / (Tile::kN / 4);
      const int column = first_column + item % (Tile::kN / 4) * 4;
      held[i] = {};
      if (item < kVectors && row < rows && column < columns) {
        const T* from = matrix + static_cast<int64_t>(row) * columns + column;
        held[i] = *reinterpret_cast<const RawPack<T, 4>*>(from);
      }
    }
  }

  __device__ __forceinline__ void store(typename Tile::Shared* shared, int buffer) const {
    using acc_t = typename Tile::acc_t;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
      if (item >= kVectors) break;
      acc_t v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) v[j] = load_element<acc_t>(held[i].v + j);
      store_run<4>(shared->b[buffer][item / (Tile::kN / 4)] + item % (Tile::kN / 4) * 4, v);
    }
  }
};

}  // namespace cuda
}  // namespace paddle_ops

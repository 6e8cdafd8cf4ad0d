#pragma once
// The same product on tensor cores, for operands of which one or both were half types. Those are
// exact in TF32 (10 bits of mantissa). The others, sampled columns, are split into two TF32
// numbers, which keeps 21 bits of them: more than a result that is rounded to a half type can show.

#include "kernels/common/gemm.cuh"

namespace paddle_ops {
namespace cuda {

__device__ __forceinline__ uint32_t to_tf32(float v) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}

// v = high + low; low is 0 where v is exact, or infinite.
__device__ __forceinline__ void split_tf32(float v, uint32_t* high, uint32_t* low) {
  *high = to_tf32(v);
  const float rounded = bit_cast<float>(*high);
  *low = to_tf32(rounded == v ? 0.0f : v - rounded);
}

// d += a b for a [16, 8] and b [8, 8]. Lane 4 g + t holds a[g][t], a[g + 8][t], a[g][t + 4],
// a[g + 8][t + 4]; b[t][g], b[t + 4][g]; d[g][2 t], d[g][2 t + 1], d[g + 8][2 t],
// d[g + 8][2 t + 1]. Source: PTX ISA, mma.m16n8k8 with .tf32.
__device__ __forceinline__ void multiply_tf32(float* d, const uint32_t* a, const uint32_t* b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// As GemmSums, from which it has the sums themselves. kSplitA, kSplitB: the operand is not exact.
template <typename Tile, bool kSplitA, bool kSplitB>
struct TensorSums : GemmSums<Tile> {
  using Base = GemmSums<Tile>;
  static constexpr int kWarps = Tile::kThreads / 32;
  // A warp's part of the tile, and the products that form it.
  static constexpr int kAcross = Tile::kN / (Tile::kN < 32 ? Tile::kN : 32);
  static constexpr int kN = Tile::kN / kAcross, kM = Tile::kM / (kWarps / kAcross);
  static constexpr int kDown = kM / 16, kSide = kN / 8;
  static_assert(kDown * kSide * 4 == Tile::kTM * Tile::kTN, "as many sums for each thread");

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int first_row() {
    return static_cast<int>(threadIdx.x) / 32 / kAcross * kM;
  }
  static __device__ __forceinline__ int first_column() {
    return static_cast<int>(threadIdx.x) / 32 % kAcross * kN;
  }

  // Where sum (i, j) of the thread lies in the tile. The 4 sums of a product are consecutive.
  static __device__ __forceinline__ int row(int i, int j) {
    const int sum = i * Tile::kTN + j;
    return first_row() + sum / 4 / kSide * 16 + lane() / 4 + sum % 4 / 2 * 8;
  }
  static __device__ __forceinline__ int column(int i, int j) {
    const int sum = i * Tile::kTN + j;
    return first_column() + sum / 4 % kSide * 8 + lane() % 4 * 2 + sum % 2;
  }

  template <bool kSplit>
  static __device__ __forceinline__ void load(float v, uint32_t* high, uint32_t* low) {
    if (kSplit) {
      split_tf32(v, high, low);
    } else {
      *high = bit_cast<uint32_t>(v);
    }
  }

  // Rows of the step beyond its depth are zeros.
  __device__ __forceinline__ void add(const typename Tile::Shared& shared, int buffer, int depth) {
    const int t = lane() % 4, g = lane() / 4;
    for (int k = 0; k < depth; k += 8) {
      uint32_t a[2][kDown][4], b[2][kSide][2];
#pragma unroll
      for (int i = 0; i < kDown * 4; ++i) {
        const int m = first_row() + i / 4 * 16 + g + i % 2 * 8;
        load<kSplitA>(shared.a[buffer][k + t + i % 4 / 2 * 4][m], &a[0][i / 4][i % 4],
                      &a[1][i / 4][i % 4]);
      }
#pragma unroll
      for (int j = 0; j < kSide * 2; ++j) {
        const int n = first_column() + j / 2 * 8 + g;
        load<kSplitB>(shared.b[buffer][k + t + j % 2 * 4][n], &b[0][j / 2][j % 2],
                      &b[1][j / 2][j % 2]);
      }
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) {
          float* sum = &Base::low[0][0] + (i * kSide + j) * 4;
          if (kSplitA) multiply_tf32(sum, a[1][i], b[0][j]);
          if (kSplitB) multiply_tf32(sum, a[0][i], b[1][j]);
          multiply_tf32(sum, a[0][i], b[0][j]);
        }
      }
    }
    Base::count(depth);
  }
};

// What forms the tiles: tensor cores where the device and the type have them.
template <typename T, typename Tile, bool kSplitA, bool kSplitB>
struct SumsOf {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using type = typename std::conditional<sizeof(T) == 2, TensorSums<Tile, kSplitA, kSplitB>,
                                         GemmSums<Tile>>::type;
#else
  using type = GemmSums<Tile>;
#endif
};

}  // namespace cuda
}  // namespace paddle_ops

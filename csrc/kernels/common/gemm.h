#pragma once
// The one matrix product of the convolution: a block of rows of A, read as scalars, times vectors
// of B, in registers.
//
//   C[m, n] (+)= sum over k < depth of A[m, k] * B[k, n]
//
// B is read in panels of two full vectors (the last one may be a single vector), so its column
// count is a multiple of the vector; rows come in multiples of kRows. Callers pad, never the loops.
// One call sums `depth` terms in the type of A; longer sums are split by the caller, with C in
// double, which is what keeps the error independent of the reduction length.

#include "kernels/common/simd.h"

namespace paddle_ops {
namespace PO_TARGET {

// Two vectors wide: rows * 2 accumulators, two vectors of B and a scalar must fit the registers.
constexpr int kGemmRows = PO_VECTOR_REGISTERS == 32 ? 12 : 6;

// A[m, k] = data[m * row + k * step]
template <typename T>
struct GemmA {
  const T* data;
  int64_t row, step;
};
// B[k, panel * 2 * lanes + j] = data[panel * panel_stride + k * step + j]
template <typename T>
struct GemmB {
  const T* data;
  int64_t panel_stride, step;
};

template <int kRows, int kVectors, typename T, typename C>
__attribute__((noinline)) void gemm_block(GemmA<T> a, const T* b, int64_t b_step, int64_t depth,
                                          C* c, int64_t c_row, bool add) {
  constexpr int kLanes = kFullLanes<T>;
  using V = Vec<T, kLanes>;
  V sum[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    V bk[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) bk[j] = load_vec<V>(b + k * b_step + j * kLanes);
#pragma GCC unroll 12
    for (int m = 0; m < kRows; ++m) {
      const T am = a.data[m * a.row + k * a.step];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[m][j] += am * bk[j];
    }
  }
  T block[kRows][kVectors * kLanes];
  memcpy(block, sum, sizeof(block));
  for (int m = 0; m < kRows; ++m) {
    C* row = c + m * c_row;
    if (add) {
      for (int j = 0; j < kVectors * kLanes; ++j) row[j] += static_cast<C>(block[m][j]);
    } else {
      for (int j = 0; j < kVectors * kLanes; ++j) row[j] = static_cast<C>(block[m][j]);
    }
  }
}

// rows: multiple of kRows; columns: multiple of the full vector. add: C += , else C = .
template <int kRows = kGemmRows, typename T, typename C>
void gemm(GemmA<T> a, GemmB<T> b, int64_t rows, int64_t columns, int64_t depth, C* c, int64_t c_row,
          bool add) {
  constexpr int64_t kLanes = kFullLanes<T>;
  for (int64_t n = 0; n < columns; n += 2 * kLanes) {
    const T* panel = b.data + n / (2 * kLanes) * b.panel_stride;
    const bool pair = columns - n > kLanes;
    for (int64_t m = 0; m < rows; m += kRows) {
      const GemmA<T> am{a.data + m * a.row, a.row, a.step};
      C* cm = c + m * c_row + n;
      if (pair) {
        gemm_block<kRows, 2>(am, panel, b.step, depth, cm, c_row, add);
      } else {
        gemm_block<kRows, 1>(am, panel, b.step, depth, cm, c_row, add);
      }
    }
  }
}

}  // namespace PO_TARGET
}  // namespace paddle_ops

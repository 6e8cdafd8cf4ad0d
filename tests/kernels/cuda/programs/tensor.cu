// c[m, n] = a[m, k] b[n, k]^T on tensor cores, with copies into shared memory that overlap. m, n
// and k are multiples of 16, 8 and 32.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>

#include "programs/launch.cuh"

#if defined(__CUDACC__)
#define MMA(shape, inputs, a0, a1, a2, a3, b0, b1)                       \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." inputs          \
               ".f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])          \
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
__device__ void mma(__half, float* d, const uint32_t* a, const uint32_t* b) {
  MMA("m16n8k16", "f16.f16", a[0], a[1], a[2], a[3], b[0], b[1]);
}
__device__ void mma(__nv_bfloat16, float* d, const uint32_t* a, const uint32_t* b) {
  MMA("m16n8k16", "bf16.bf16", a[0], a[1], a[2], a[3], b[0], b[1]);
}
__device__ void mma(float, float* d, const uint32_t* a, const uint32_t* b) {
  MMA("m16n8k8", "tf32.tf32", a[0], a[1], a[2], a[3], b[0], b[1]);
}
#else
#include "engine/warp.h"
inline void mma(__half, float* d, const uint32_t* a, const uint32_t* b) {
  emu::mma_m16n8k16_f16(d, a, b, d, {__FILE__, __LINE__});
}
inline void mma(__nv_bfloat16, float* d, const uint32_t* a, const uint32_t* b) {
  emu::mma_m16n8k16_bf16(d, a, b, d, {__FILE__, __LINE__});
}
inline void mma(float, float* d, const uint32_t* a, const uint32_t* b) {
  emu::mma_m16n8k8_tf32(d, a, b, d, {__FILE__, __LINE__});
}
#endif

constexpr int kRows = 16, kColumns = 8, kDepth = 32;

// One warp for a tile of 16 x 8. A register holds 4 bytes of a row; a fragment has the rows of the
// lane's group and of the one 8 below, the halves of the depth, and b one column.
template <typename T>
__global__ void product(const T* a, const T* b, float* c, int n, int k) {
  constexpr int kPerWord = 4 / int(sizeof(T)), kStep = 8 * kPerWord, kPad = 4 * kPerWord;
  __shared__ alignas(16) T as[2][kRows][kDepth + kPad];
  __shared__ alignas(16) T bs[2][kColumns][kDepth + kPad];
  const int lane = threadIdx.x, group = lane >> 2, t = lane & 3;
  const int row = blockIdx.y * kRows, column = blockIdx.x * kColumns;
  const auto load = [&](int stage, int depth) {
    constexpr int kEach = 16 / int(sizeof(T)), kPieces = kDepth / kEach;
    for (int i = lane; i < (kRows + kColumns) * kPieces; i += 32) {
      const int r = i / kPieces, d = i % kPieces * kEach;
      const bool of_a = r < kRows;
      T* to = of_a ? &as[stage][r][d] : &bs[stage][r - kRows][d];
      const T* from = of_a ? a + size_t(row + r) * k : b + size_t(column + r - kRows) * k;
      __pipeline_memcpy_async(to, from + depth + d, 16);
    }
    __pipeline_commit();
  };
  float d[4] = {};
  load(0, 0);
  for (int depth = 0, stage = 0; depth < k; depth += kDepth, stage ^= 1) {
    if (depth + kDepth < k) {
      load(stage ^ 1, depth + kDepth);
    } else {
      __pipeline_commit();
    }
#ifdef BUG_NO_WAIT
    __pipeline_wait_prior(2);
#else
    __pipeline_wait_prior(1);
#endif
    __syncthreads();
    for (int i = 0; i < kDepth; i += kStep) {
      uint32_t fa[4], fb[2];
      for (int r = 0; r < 4; ++r) {
        const T* from = &as[stage][group + 8 * (r & 1)][i + t * kPerWord + kStep / 2 * (r >> 1)];
        fa[r] = *reinterpret_cast<const uint32_t*>(from);
      }
      for (int r = 0; r < 2; ++r) {
        const T* from = &bs[stage][group][i + t * kPerWord + kStep / 2 * r];
        fb[r] = *reinterpret_cast<const uint32_t*>(from);
      }
      mma(T(), d, fa, fb);
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    c[size_t(row + group + 8 * (i >> 1)) * n + column + 2 * t + (i & 1)] = d[i];
  }
}

template <typename T>
int launch(const T* a, const T* b, float* c, int64_t m, int64_t n, int64_t k) {
  const dim3 grid(unsigned(n / kColumns), unsigned(m / kRows));
  return run(product<T>, grid, dim3(32), 0, a, b, c, int(n), int(k));
}
extern "C" int launch_half(const __half* a, const __half* b, float* c, int64_t m, int64_t n,
                           int64_t k) {
  return launch(a, b, c, m, n, k);
}
extern "C" int launch_bfloat(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int64_t m,
                             int64_t n, int64_t k) {
  return launch(a, b, c, m, n, k);
}
extern "C" int launch_tf32(const float* a, const float* b, float* c, int64_t m, int64_t n,
                           int64_t k) {
  return launch(a, b, c, m, n, k);
}

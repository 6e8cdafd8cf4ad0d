// Arithmetic that C++ and the CUDA headers turn into many PTX instructions. Each kernel computes
// rows of results for every element; the test has the same list in NumPy.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "programs/launch.cuh"

__global__ void floats(const float* a, const float* b, float* out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = a[i], y = b[i];
  const float rows[] = {x + y,
                        x - y,
                        x * y,
                        x / y,
                        fmaf(x, y, x),
                        sqrtf(fabsf(x)),
                        floorf(x),
                        ceilf(x),
                        truncf(x),
                        rintf(x),
                        fminf(x, y),
                        fmaxf(x, y),
                        copysignf(x, y),
                        fabsf(x),
                        -x,
                        __saturatef(x),
                        expf(y),
                        logf(fabsf(x)),
                        sinf(y),
                        tanhf(y),
                        x > y ? 1.f : 0.f,
                        x != y ? 1.f : 0.f,
                        !(x < y) ? 1.f : 0.f,
                        isnan(x) ? 1.f : 0.f,
                        rsqrtf(fabsf(y)),
                        erff(y),
                        powf(fabsf(y), 1.5f)};
  for (int k = 0; k < int(sizeof(rows) / sizeof(float)); ++k) out[k * n + i] = rows[k];
}
extern "C" int launch_floats(const float* a, const float* b, float* out, int64_t n) {
  return run(floats, dim3(unsigned(n + 63) / 64), dim3(64), 0, a, b, out, n);
}

__global__ void doubles(const double* a, const double* b, double* out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double x = a[i], y = b[i];
  const double rows[] = {x + y,
                         x / y,
                         fma(x, y, x),
                         sqrt(fabs(x)),
                         floor(x),
                         fmin(x, y),
                         exp(y),
                         log(fabs(x)),
                         double(float(x)),
                         double(__double2ll_rn(x)),
                         double(__double2int_rz(x)),
                         double(static_cast<long long>(x) * 3)};
  for (int k = 0; k < int(sizeof(rows) / sizeof(double)); ++k) out[k * n + i] = rows[k];
}
extern "C" int launch_doubles(const double* a, const double* b, double* out, int64_t n) {
  return run(doubles, dim3(unsigned(n + 63) / 64), dim3(64), 0, a, b, out, n);
}

__global__ void words(const int* a, const int* b, int* out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int x = a[i], y = b[i];
  const unsigned ux = unsigned(x), uy = unsigned(y), shift = uy & 31;
  const int rows[] = {int(ux + uy),
                      int(ux - uy),
                      int(ux * uy),
                      y == 0 ? 0 : int(x / (y | 1)),
                      int(ux % (uy | 1)),
                      x & y,
                      x | y,
                      x ^ y,
                      ~x,
                      int(ux << shift),
                      x >> shift,
                      int(ux >> shift),
                      min(x, y),
                      int(max(ux, uy)),
                      __mulhi(x, y),
                      int(__umulhi(ux, uy)),
                      __popc(ux),
                      __clz(x),
                      int(__brev(ux)),
                      __ffs(x),
                      int(__byte_perm(ux, uy, 0x6240)),
                      int(__funnelshift_l(ux, uy, shift)),
                      int(__funnelshift_r(ux, uy, shift)),
                      (x << 3) >> 27,
                      int(ux << 7 >> 20),
                      int(short(x)),
                      int(static_cast<unsigned char>(y)),
                      x < y,
                      ux < uy,
                      int(float(x) * 0.5f)};
  for (int k = 0; k < int(sizeof(rows) / sizeof(int)); ++k) out[k * n + i] = rows[k];
}
extern "C" int launch_words(const int* a, const int* b, int* out, int64_t n) {
  return run(words, dim3(unsigned(n + 63) / 64), dim3(64), 0, a, b, out, n);
}

__global__ void long_words(const int64_t* a, const int64_t* b, int64_t* out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int64_t x = a[i], y = b[i];
  const uint64_t ux = uint64_t(x), uy = uint64_t(y);
  const int64_t rows[] = {int64_t(ux + uy),
                          int64_t(ux * uy),
                          x / (y | 1),
                          int64_t(ux % (uy | 1)),
                          int64_t(ux << (uy & 63)),
                          x >> (uy & 63),
                          __mul64hi(x, y),
                          int64_t(__umul64hi(ux, uy)),
                          __popcll(x),
                          __clzll(x),
                          int64_t(__brevll(ux)),
                          x < y,
                          int64_t(int(x)) * int(y),
                          min(x, y)};
  for (int k = 0; k < int(sizeof(rows) / sizeof(int64_t)); ++k) out[k * n + i] = rows[k];
}
extern "C" int launch_long_words(const int64_t* a, const int64_t* b, int64_t* out, int64_t n) {
  return run(long_words, dim3(unsigned(n + 63) / 64), dim3(64), 0, a, b, out, n);
}

// The bits of halves in, bits out.
template <typename Half, typename Pair>
__device__ void half_rows(Half x, Half y, Half* rows) {
  rows[0] = __hadd(x, y);
  rows[1] = __hmul(x, y);
  rows[2] = __hfma(x, y, x);
  rows[3] = __hmax(x, y);
  rows[4] = __hneg(x);
  rows[5] = __hlt(x, y) ? x : y;
  Pair pair;
  pair.x = x;
  pair.y = y;
  pair = __hadd2(pair, pair);
  rows[6] = pair.x;
  rows[7] = pair.y;
}

constexpr int kHalfRows = 8;

__global__ void halves(const __half* a, const __half* b, __half* out, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half rows[kHalfRows];
  half_rows<__half, __half2>(a[i], b[i], rows);
  for (int k = 0; k < kHalfRows; ++k) out[k * n + i] = rows[k];
}
extern "C" int launch_halves(const __half* a, const __half* b, __half* out, int64_t n) {
  return run(halves, dim3(unsigned(n + 63) / 64), dim3(64), 0, a, b, out, n);
}

__global__ void bfloats(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* out,
                        int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_bfloat16 rows[kHalfRows];
  half_rows<__nv_bfloat16, __nv_bfloat162>(a[i], b[i], rows);
  for (int k = 0; k < kHalfRows; ++k) out[k * n + i] = rows[k];
}
extern "C" int launch_bfloats(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* out,
                              int64_t n) {
  return run(bfloats, dim3(unsigned(n + 63) / 64), dim3(64), 0, a, b, out, n);
}

// Both conversions of every half, and of floats.
__global__ void conversions(const float* x, __half* half, __nv_bfloat16* bfloat, float* back,
                            int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  half[i] = __float2half_rn(x[i]);
  bfloat[i] = __float2bfloat16_rn(x[i]);
  back[i] = __half2float(half[i]);
  back[n + i] = __bfloat162float(bfloat[i]);
}
extern "C" int launch_conversions(const float* x, __half* half, __nv_bfloat16* bfloat, float* back,
                                  int64_t n) {
  return run(conversions, dim3(unsigned(n + 255) / 256), dim3(256), 0, x, half, bfloat, back, n);
}

// A table of jumps, an array in local memory, a struct of arrays as parameter, variables.
struct Table {
  int16_t factors[5];
  double shift;
};
__constant__ int offsets[3] = {10, 20, 30};
__device__ int calls;

__global__ void control(const int* x, int* out, Table table) {
  const int i = threadIdx.x, v = x[i];
  int local[9];
  for (int k = 0; k < 9; ++k) local[k] = v * k;
  int r = 0;
  switch (v) {
    case 0:
      r = 7;
      break;
    case 1:
      r = v * 3 + out[i];
      break;
    case 2:
      r = table.factors[i % 5];
      break;
    case 3:
      r = local[(i * 5) % 9];
      break;
    case 4:
      r = offsets[i % 3];
      break;
    case 5:
      r = int(table.shift * i);
      break;
    case 6:
      r = out[i] << 3;
      break;
    default:
      r = -1;
  }
  out[i] = r;
  atomicAdd(&calls, 1);
}
extern "C" int launch_control(const int* x, int* out, int* count) {
  int first = 5;
  cudaError_t error = cudaMemcpyToSymbol(calls, &first, sizeof(first));
  if (error != cudaSuccess) return error;
  const Table table{{3, 1, 4, 1, 5}, 2.5};
  error = static_cast<cudaError_t>(run(control, dim3(1), dim3(64), 0, x, out, table));
  if (error != cudaSuccess) return error;
  return cudaMemcpyFromSymbol(count, calls, sizeof(int));
}

// Atomics of every kind, by all threads on one word each.
__global__ void atomics(unsigned* out, float* sums, __half2* pair) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(out + 0, i);
  atomicSub(out + 1, i);
  atomicMin(out + 2, i ^ 21u);
  atomicMax(out + 3, i ^ 21u);
  atomicAnd(out + 4, ~i);
  atomicOr(out + 5, i);
  atomicXor(out + 6, i * 77u);
  atomicInc(out + 7, 9u);
  atomicDec(out + 8, 9u);
  atomicAdd(sums, 0.25f * float(i));
  atomicAdd(pair, __floats2half2_rn(1.f, 2.f));
  // a sum by compare and swap
  unsigned old = out[9], seen;
  do {
    seen = old;
    old = atomicCAS(out + 9, seen, seen + i);
  } while (old != seen);
#if __CUDA_ARCH__ >= 900
  atomicAdd(reinterpret_cast<float4*>(sums) + 1, make_float4(1.f, 2.f, 3.f, 4.f));
  atomicAdd(reinterpret_cast<float2*>(sums) + 4, make_float2(5.f, 6.f));
#endif
}
extern "C" int launch_atomics(unsigned* out, float* sums, __half2* pair) {
  return run(atomics, dim3(3), dim3(32), 0, out, sums, pair);
}

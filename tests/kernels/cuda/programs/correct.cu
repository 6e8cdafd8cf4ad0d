// Kernels that are right: they must give the exact result in every order and for every grid.

#include <cuda_runtime.h>

#include <cstdint>

// -- a product of matrices by tiles in static shared memory ---------------------------------------

constexpr int kTile = 16;

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[kTile][kTile + 1];
  __shared__ float bs[kTile][kTile + 1];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * kTile + ty, column = blockIdx.x * kTile + tx;
  float sum = 0;
  for (int first = 0; first < k; first += kTile) {
    as[ty][tx] = row < m && first + tx < k ? a[row * k + first + tx] : 0.f;
    bs[ty][tx] = first + ty < k && column < n ? b[(first + ty) * n + column] : 0.f;
#ifndef BUG_NO_BARRIER_AFTER_WRITING
    __syncthreads();
#endif
    for (int i = 0; i < kTile; ++i) sum += as[ty][i] * bs[i][tx];
#ifndef BUG_NO_BARRIER_AFTER_READING
    __syncthreads();
#endif
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" int launch_product(const float* a, const float* b, float* c, int64_t m, int64_t n,
                              int64_t k) {
  const dim3 grid(unsigned(n + kTile - 1) / kTile, unsigned(m + kTile - 1) / kTile);
  const dim3 block(kTile, kTile);
  int sizes[] = {int(m), int(n), int(k)};
  void* arguments[] = {&a, &b, &c, &sizes[0], &sizes[1], &sizes[2]};
  return cudaLaunchKernel(product, grid, block, arguments, 0, nullptr);
}

// -- a sum by shuffles, dynamic shared memory and one atomic addition for each block --------------

__device__ float warp_sum(float v) {
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(0xffffffffu, v, lanes);
  return v;
}

__global__ void sum(const float* x, float* out, int64_t count) {
  extern __shared__ float parts[];
  float v = 0;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) v += x[i];
  v = warp_sum(v);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  if (lane == 0) parts[warp] = v;
#ifndef BUG_NO_BARRIER
  __syncthreads();
#endif
  if (warp != 0) return;
  v = warp_sum(lane < warps ? parts[lane] : 0.f);
#ifdef BUG_NO_ATOMIC
  if (lane == 0) *out += v;
#else
  if (lane == 0) atomicAdd(out, v);
#endif
}

extern "C" int launch_sum(const float* x, float* out, int64_t count) {
  void* arguments[] = {&x, &out, &count};
  return cudaLaunchKernel(sum, dim3(3), dim3(128), arguments, 4 * sizeof(float), nullptr);
}

// -- votes and shuffles in every direction --------------------------------------------------------

__global__ void warp_functions(const int* x, int* out) {
  const int lane = threadIdx.x, v = x[lane];
  int* mine = out + 8 * lane;
  mine[0] = __shfl_sync(0xffffffffu, v, lane + 5);
  mine[1] = __shfl_up_sync(0xffffffffu, v, 3);
  mine[2] = __shfl_down_sync(0xffffffffu, v, 3);
  mine[3] = __shfl_xor_sync(0xffffffffu, v, 9);
  mine[4] = __shfl_down_sync(0xffffffffu, v, 1, 8);
  mine[5] = int(__ballot_sync(0xffffffffu, v % 3 == 0));
  mine[6] = __any_sync(0xffffffffu, v == 7) + 2 * __all_sync(0xffffffffu, v >= 0);
  mine[7] = 0;
  if (lane < 16) {
    mine[7] = __shfl_xor_sync(0x0000ffffu, v, 1);
    __syncwarp(0x0000ffffu);
  }
}

extern "C" int launch_warp_functions(const int* x, int* out) {
  void* arguments[] = {&x, &out};
  return cudaLaunchKernel(warp_functions, dim3(1), dim3(32), arguments, 0, nullptr);
}

// -- a histogram, in shared and then in global memory ---------------------------------------------

__global__ void histogram(const int* x, unsigned long long* counts, double* weighted, int count) {
  __shared__ int here[8];
  if (threadIdx.x < 8) here[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    atomicAdd(&here[x[i]], 1);
    atomicAdd(weighted + x[i], 0.5);
  }
  __syncthreads();
  if (threadIdx.x < 8) {
    atomicAdd(counts + threadIdx.x, static_cast<unsigned long long>(here[threadIdx.x]));
    atomicMax(counts + 8, static_cast<unsigned long long>(here[threadIdx.x]));
  }
}

extern "C" int launch_histogram(const int* x, unsigned long long* counts, double* weighted,
                                int64_t count) {
  int size = int(count);
  void* arguments[] = {&x, &counts, &weighted, &size};
  return cudaLaunchKernel(histogram, dim3(3), dim3(64), arguments, 0, nullptr);
}

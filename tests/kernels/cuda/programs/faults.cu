// Kernels with one fault each, which the emulator must report.

#include "programs/launch.cuh"

// Threads 40 and up leave, the others wait for them.
__global__ void divergent_barrier(int* out) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}
extern "C" int launch_divergent_barrier(int* out) {
  return run(divergent_barrier, dim3(1), dim3(64), 0, out);
}

// Half of the threads wait at one barrier, half at another.
__global__ void two_barriers(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = threadIdx.x;
  if (threadIdx.x % 2 == 1) {
    __syncthreads();
    out[threadIdx.x] = values[threadIdx.x ^ 1];
  } else {
    __syncthreads();
    out[threadIdx.x] = -values[threadIdx.x ^ 1];
  }
}
extern "C" int launch_two_barriers(int* out) {
  return run(two_barriers, dim3(1), dim3(64), 0, out);
}

// The mask names lanes that have left.
__global__ void exited_lanes(float* out) {
  if (threadIdx.x >= 16) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, float(threadIdx.x), 8);
}
extern "C" int launch_exited_lanes(float* out) {
  return run(exited_lanes, dim3(1), dim3(32), 0, out);
}

// The mask does not name the caller.
__global__ void not_in_mask(float* out) {
  out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, float(threadIdx.x), 8);
}
extern "C" int launch_not_in_mask(float* out) {
  return run(not_in_mask, dim3(1), dim3(32), 0, out);
}

// A float4 at an address that is no multiple of 16.
__global__ void misaligned(const float* x, float* out) {
  const float4 v = *reinterpret_cast<const float4*>(x + 1 + 4 * threadIdx.x);
  out[threadIdx.x] = v.x + v.w;
}
extern "C" int launch_misaligned(const float* x, float* out) {
  return run(misaligned, dim3(1), dim3(8), 0, x, out);
}

// The last thread writes one element too far.
__global__ void global_out_of_bounds(float* out, int64_t count) {
  if (threadIdx.x <= count) out[threadIdx.x] = 1;
}
extern "C" int launch_global_out_of_bounds(float* out, int64_t count) {
  return run(global_out_of_bounds, dim3(1), dim3(64), 0, out, count);
}

// 65 elements of dynamic shared memory that has 64.
__global__ void shared_out_of_bounds(float* out) {
  extern __shared__ float values[];
  values[threadIdx.x + 1] = 1;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}
extern "C" int launch_shared_out_of_bounds(float* out) {
  return run(shared_out_of_bounds, dim3(1), dim3(64), 64 * sizeof(float), out);
}

// From one array into its neighbour, which only AddressSanitizer tells apart.
__global__ void wrong_array(float* out, int64_t index) {
  __shared__ float first[64];
  __shared__ float second[64];
  first[threadIdx.x] = 1;
  second[threadIdx.x] = 2;
  __syncthreads();
  out[threadIdx.x] = first[threadIdx.x + index] + second[threadIdx.x];
}
extern "C" int launch_wrong_array(float* out, int64_t index) {
  return run(wrong_array, dim3(1), dim3(64), 0, out, index);
}

// Element 63 is never written.
__global__ void uninitialised(float* out) {
  __shared__ float values[64];
  if (threadIdx.x < 63) values[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}
extern "C" int launch_uninitialised(float* out) {
  return run(uninitialised, dim3(1), dim3(64), 0, out);
}

// More dynamic shared memory than without cudaFuncSetAttribute.
__global__ void much_shared(float* out) {
  extern __shared__ float values[];
  values[threadIdx.x] = 1;
  out[threadIdx.x] = values[threadIdx.x];
}
extern "C" int launch_much_shared(float* out, int64_t ask) {
  constexpr int kBytes = 100 << 10;
  if (ask != 0) {
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(much_shared),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    if (error != cudaSuccess) return error;
  }
  return run(much_shared, dim3(1), dim3(64), kBytes, out);
}

// An integer division by zero has no defined result.
__global__ void division_by_zero(int* out) { out[threadIdx.x] = 7 / out[threadIdx.x]; }
extern "C" int launch_division_by_zero(int* out) {
  return run(division_by_zero, dim3(1), dim3(32), 0, out);
}

#pragma once
// What CUDA kernels share: how many blocks, a loop over all elements, one element's load and store.
//
// nvcc compiles this for the GPU. The tests also compile it with g++ and run it on the CPU, hence
// kernels are launched by the function below and not by <<<>>>.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/common/hostdevice.h"
#include "kernels/common/index.h"
#include "kernels/common/numeric.h"

namespace paddle_ops {
namespace cuda {

constexpr int kBlockThreads = 256;
constexpr int64_t kMostBlocks = 0x7fffffff;  // what a grid may have in x

// Blocks for `work` threads: formed in 64 bits, at least one, at most `most`. Where the cap bites,
// the kernel's loop takes further rounds.
inline unsigned grid_size(int64_t work, int threads = kBlockThreads, int64_t most = kMostBlocks) {
  const int64_t blocks = ceil_div(work, threads);
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

// body(i) for every i < count, whatever the grid. Neither the first index nor the last step may
// overflow index_t, hence 64 bits outside of the loop and the comparison before the step.
template <typename index_t, typename Body>
__device__ __forceinline__ void grid_stride(index_t count, const Body& body) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  if (first >= count) return;
  const index_t step = threads < count ? static_cast<index_t>(threads) : count;
  for (index_t i = static_cast<index_t>(first);; i += step) {
    body(i);
    if (count - i <= step) return;
  }
}

template <typename T>
struct SameType {
  using type = T;
};

// kernel<<<grid, block, shared_bytes, stream>>>(arguments...), and what came of it.
template <typename... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, typename SameType<Parameters>::type... arguments) {
  void* addresses[] = {static_cast<void*>(&arguments)...};
  return cudaLaunchKernel(kernel, grid, block, addresses, shared_bytes, stream);
}

// An element of any type as a number to compute with; and back, rounded once.
template <typename acc_t, typename T>
__device__ __forceinline__ acc_t load_element(const T* from) {
  return static_cast<acc_t>(element(*from));
}
template <typename T, typename acc_t>
__device__ __forceinline__ void store_element(T* to, acc_t value) {
  *to = static_cast<T>(value);
}
template <typename acc_t>
__device__ __forceinline__ void store_element(Float16* to, acc_t value) {
  *to = to_float16(static_cast<float>(value));
}
template <typename acc_t>
__device__ __forceinline__ void store_element(BFloat16* to, acc_t value) {
  *to = to_bfloat16(static_cast<float>(value));
}

}  // namespace cuda
}  // namespace paddle_ops

#pragma once
// One launch, for programs whose grid and block say nothing.

#include <cuda_runtime.h>

#include <cstdint>

template <typename... Parameters>
int run(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
        Parameters... arguments) {
  void* addresses[] = {static_cast<void*>(&arguments)...};
  return cudaLaunchKernel(kernel, grid, block, addresses, shared_bytes, nullptr);
}

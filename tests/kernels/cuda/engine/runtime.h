#pragma once
// What the stand-in for the CUDA runtime and its clients share.

#include <cuda_runtime.h>

#include <string>

#include "engine.h"

namespace emu {

// Runs a grid; a fault is kept for the test to fetch, and becomes cudaErrorIllegalAddress.
cudaError_t run_and_report(const Launch& launch);
// The first fault since the last call, empty if there was none.
std::string take_fault();
// A mangled name as it was written.
std::string readable(const std::string& symbol);
// Sets what cudaGetLastError returns.
cudaError_t remember(cudaError_t error);
// How much dynamic shared memory a kernel has been allowed by cudaFuncSetAttribute.
bool shared_memory_allowed(const void* kernel, size_t dynamic_bytes, size_t static_bytes);

}  // namespace emu

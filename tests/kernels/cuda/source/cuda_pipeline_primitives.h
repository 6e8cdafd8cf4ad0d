#pragma once
// In the place of CUDA's header of this name, when g++ compiles a kernel.

#include "source/cuda_source.h"

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  emu::async_copy(to, from, uint32_t(bytes - zeros), uint32_t(zeros));
}
inline void __pipeline_commit() { emu::async_commit(); }
inline void __pipeline_wait_prior(int groups) { emu::async_wait(groups); }

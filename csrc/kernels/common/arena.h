#pragma once
// Carves one caller-owned block of memory into arrays. With a null base it only measures, so the
// code that sizes a workspace and the code that uses it are the same lines.

#include <cstdint>

#include "kernels/common/hostdevice.h"

namespace paddle_ops {

struct Arena {
  char* base = nullptr;
  int64_t used = 0;

  static constexpr int64_t kAlign = 64;  // a cache line and the widest vector

  // Of memory with `size()` bytes, wherever it starts.
  static PO_HOSTDEVICE Arena over(void* memory) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(memory);
    return {reinterpret_cast<char*>((address + kAlign - 1) / kAlign * kAlign), 0};
  }
  PO_HOSTDEVICE int64_t size() const { return used + kAlign; }

  template <typename T>
  PO_HOSTDEVICE T* take(int64_t count) {
    char* at = base == nullptr ? nullptr : base + used;
    used += (count * static_cast<int64_t>(sizeof(T)) + kAlign - 1) / kAlign * kAlign;
    return reinterpret_cast<T*>(at);
  }
};

}  // namespace paddle_ops

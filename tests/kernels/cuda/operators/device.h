#pragma once
// An operator's tensors as memory that its kernels may touch, and errors as exceptions.

#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/memory.h"
#include "engine/runtime.h"
#include "kernels/common/numeric.h"

namespace paddle_ops {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    for (const void* start : starts_) emu::unregister_memory(start);
  }

  void add(const char* name, ConstData tensor, int64_t count) {
    add(name, tensor.data, count * size_of(tensor.dtype), false);
  }
  void add(const char* name, MutableData tensor, int64_t count) {
    add(name, tensor.data, count * size_of(tensor.dtype), true);
  }

  // Filled with NaN; huge memory with zeros, which take no memory until they are touched.
  void* allocate(const char* name, int64_t bytes) {
    const size_t size = static_cast<size_t>(bytes);
    if (size >= emu::kHuge) {
      owned_.push_back(emu::sparse_zeros(size));
    } else {
      owned_.emplace_back(new char[size], std::default_delete<char[]>());
      std::memset(owned_.back().get(), 0xff, size);
    }
    void* start = owned_.back().get();
    add(name, start, bytes, true);
    return start;
  }

 private:
  void add(const char* name, const void* start, int64_t bytes, bool writable) {
    if (start == nullptr) return;
    emu::register_memory(start, static_cast<size_t>(bytes), writable, name);
    starts_.push_back(start);
  }

  std::vector<const void*> starts_;
  std::vector<std::shared_ptr<char>> owned_;
};

inline void check(cudaError_t error) {
  const std::string fault = emu::take_fault();
  if (!fault.empty()) throw std::runtime_error(fault);
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

}  // namespace paddle_ops

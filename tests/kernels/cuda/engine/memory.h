#pragma once
// Device memory is host memory that has been registered; every access of a kernel is looked up.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine.h"

namespace emu {

void register_memory(const void* start, size_t bytes, bool writable, const char* name);
void unregister_memory(const void* start);
bool is_registered(const void* start, size_t bytes);

constexpr size_t kHuge = size_t{1} << 30;  // bytes; memory beyond exists where it is touched only

std::shared_ptr<char> sparse_zeros(size_t bytes);

// memset. A huge stretch of zeros gives its pages back to the system, and reads as zeros all the
// same: such memory comes from sparse_zeros, malloc or emulator.sparse, never from a file.
void fill(void* to, int value, size_t bytes);

// The allocation of the last access: most accesses go where the one before went. Empty for none.
struct Range {
  uint64_t start, end;
};
extern Range last_read, last_written;

// The address itself, or a Fault: misaligned, out of bounds, or a write to what may only be read.
char* find_global(uint64_t address, size_t bytes, bool write, Site site);
inline char* global_address(uint64_t address, size_t bytes, bool write, Site site) {
  const Range& last = write ? last_written : last_read;
  if (address >= last.start && address + bytes <= last.end && address % bytes == 0) {
    return reinterpret_cast<char*>(address);
  }
  return find_global(address, bytes, write, site);
}

// The same for an offset into the block's shared memory.
[[noreturn]] void fail_shared(uint64_t offset, size_t bytes, Site site);
inline char* shared_address(uint64_t offset, size_t bytes, Site site) {
  if (offset % bytes != 0 || offset + bytes > shared_window.bytes) fail_shared(offset, bytes, site);
  return shared_window.start + offset;
}

}  // namespace emu

#pragma once
// Device memory is host memory that has been registered; every access of a kernel is looked up.

#include <cstddef>
#include <cstdint>

#include "engine.h"

namespace emu {

void register_memory(const void* start, size_t bytes, bool writable, const char* name);
void unregister_memory(const void* start);
bool is_registered(const void* start, size_t bytes);

// The address itself, or a Fault: misaligned, out of bounds, or a write to what may only be read.
char* global_address(uint64_t address, size_t bytes, bool write, Site site);
// The same for an offset into the block's shared memory.
char* shared_address(uint64_t offset, size_t bytes, Site site);

}  // namespace emu

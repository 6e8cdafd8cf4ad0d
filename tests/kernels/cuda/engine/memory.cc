#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <string>

namespace emu {
namespace {

struct Allocation {
  uint64_t start = 0, end = 0;
  bool writable = false;
  std::string name;
  int times = 0;  // registered
};

// By start. A function: variables register before main.
std::map<uint64_t, Allocation>& allocations() {
  static std::map<uint64_t, Allocation> instance;
  return instance;
}
bool contains(const Allocation& a, uint64_t address, size_t bytes) {
  return address >= a.start && address + bytes <= a.end;
}

const Allocation* find(uint64_t address, size_t bytes) {
  auto next = allocations().upper_bound(address);
  if (next == allocations().begin()) return nullptr;
  const Allocation& before = std::prev(next)->second;
  return contains(before, address, bytes) ? &before : nullptr;
}

// "12 bytes after the end of x (400 bytes)", for what is next to the address.
std::string neighbourhood(uint64_t address) {
  auto next = allocations().upper_bound(address);
  std::string text;
  if (next != allocations().begin()) {
    const Allocation& a = std::prev(next)->second;
    text += "; it starts " + std::to_string(address - a.start) + " bytes into '" + a.name +
            "', which has " + std::to_string(a.end - a.start);
  }
  if (next != allocations().end()) {
    const Allocation& a = next->second;
    text += "; '" + a.name + "' begins " + std::to_string(a.start - address) + " bytes later";
  }
  return text;
}

[[noreturn]] void fail(const std::string& what, size_t bytes, bool write, Site site) {
  throw Fault(what + ": " + (write ? "write" : "read") + " of " + std::to_string(bytes) +
              " bytes at " + to_string(site));
}

}  // namespace

Range last_read, last_written;

void register_memory(const void* start, size_t bytes, bool writable, const char* name) {
  const uint64_t address = reinterpret_cast<uint64_t>(start);
  Allocation& a = allocations()[address];
  // The same array may be registered twice, as an input and as an output.
  a = {address, std::max(a.end, address + bytes), a.writable || writable, name, a.times + 1};
  last_read = last_written = {0, 0};
}

void unregister_memory(const void* start) {
  const auto found = allocations().find(reinterpret_cast<uint64_t>(start));
  if (found != allocations().end() && --found->second.times == 0) allocations().erase(found);
  last_read = last_written = {0, 0};
}

bool is_registered(const void* start, size_t bytes) {
  return find(reinterpret_cast<uint64_t>(start), bytes) != nullptr;
}

std::shared_ptr<char> sparse_zeros(size_t bytes) {
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<char*>(start), [bytes](char* memory) { munmap(memory, bytes); }};
}

void fill(void* to, int value, size_t bytes) {
  char* const start = static_cast<char*>(to);
  if (value != 0 || bytes < kHuge) {
    std::memset(start, value, bytes);
    return;
  }
  const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE)), address = reinterpret_cast<uint64_t>(to);
  const size_t before = (page - address % page) % page, after = (address + bytes) % page;
  std::memset(start, 0, before);
  madvise(start + before, bytes - before - after, MADV_DONTNEED);
  std::memset(start + bytes - after, 0, after);
}

char* find_global(uint64_t address, size_t bytes, bool write, Site site) {
  char* pointer = reinterpret_cast<char*>(address);
  if (address % bytes != 0) fail("misaligned access", bytes, write, site);
  const Allocation* hit = find(address, bytes);
  if (hit != nullptr) {
    if (write && !hit->writable) fail("write to the input '" + hit->name + "'", bytes, write, site);
    (write ? last_written : last_read) = {hit->start, hit->end};
    return pointer;
  }
  // A generic address may also mean shared memory or the thread's own variables.
  const uint64_t shared = reinterpret_cast<uint64_t>(shared_window.start);
  if (address >= shared && address + bytes <= shared + shared_window.bytes) return pointer;
  if (on_own_stack(pointer)) return pointer;
  fail("global access out of bounds" + neighbourhood(address), bytes, write, site);
}

void fail_shared(uint64_t offset, size_t bytes, Site site) {
  const bool misaligned = offset % bytes != 0;
  throw Fault(std::string(misaligned ? "misaligned" : "out of bounds") + " in shared memory: " +
              std::to_string(bytes) + " bytes at byte " + std::to_string(offset) + " of " +
              std::to_string(shared_window.bytes) + ", at " + to_string(site));
}

}  // namespace emu

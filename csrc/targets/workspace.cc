#include "targets/workspace.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "kernels/common/index.h"

namespace paddle_ops {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kExact = true;  // so that what lies beyond is reported
#else
constexpr bool kExact = false;
#endif
constexpr int64_t kPage = INT64_C(2) << 20;
constexpr int64_t kKept = kExact ? 0 : INT64_C(64) << 20;

// In front of each block, a cache line long.
struct alignas(64) Header {
  int64_t bytes;  // of the block and its header
};

std::atomic<Header*> kept{nullptr};

Header* allocate(int64_t bytes) {
  const bool large = !kExact && bytes >= kPage;
  if (large) bytes = round_up(bytes, kPage);
  const size_t size = static_cast<size_t>(round_up(bytes, 64));
  void* memory = std::aligned_alloc(large ? kPage : 64, size);
  if (memory == nullptr) throw std::bad_alloc();
  prefer_large_pages(memory, bytes);
  return new (memory) Header{bytes};
}

}  // namespace

void prefer_large_pages(void* memory, int64_t bytes) {
#if defined(MADV_HUGEPAGE)
  const int64_t address = static_cast<int64_t>(reinterpret_cast<intptr_t>(memory));
  const int64_t first = round_up(address, kPage), end = (address + bytes) / kPage * kPage;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

Workspace::Workspace(int64_t bytes) {
  bytes += static_cast<int64_t>(sizeof(Header));
  Header* header = kept.exchange(nullptr);
  if (header != nullptr && header->bytes < bytes) {
    std::free(header);
    header = nullptr;
  }
  if (header == nullptr) header = allocate(bytes);
  block_ = header + 1;
}

Workspace::~Workspace() {
  Header* header = static_cast<Header*>(block_) - 1;
  if (header->bytes <= kKept) header = kept.exchange(header);
  std::free(header);
}

}  // namespace paddle_ops

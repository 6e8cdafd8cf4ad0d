#pragma once

#include <cstdint>

namespace paddle_ops {

// Asks for pages of 2 MB in fresh memory of at least that size, where the system offers them. They
// come faster than 512 small ones, and sampling jumps over more small ones than the CPU can keep
// track of. A wish: nothing but speed depends on it.
void prefer_large_pages(void* memory, int64_t bytes);

// Scratch memory for one call, on large pages. What a call returns is kept for the next one, up to
// 64 MB in the whole process: the system would clear its pages anew each time, up to a fifth of a
// call. Throws std::bad_alloc.
class Workspace {
 public:
  explicit Workspace(int64_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* get() const { return block_; }

 private:
  void* block_;
};

}  // namespace paddle_ops

#pragma once

#include <cstdint>

namespace paddle_ops {

// Scratch memory for one call. What a call returns is kept for the next one, up to 64 MB in the
// whole process: the system would clear its pages anew each time, up to a fifth of a call. Where
// the system offers them, its pages are of 2 MB: sampling jumps over more small ones than the CPU
// can keep track of (a quarter of the backward pass with 32 groups). Throws std::bad_alloc.
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

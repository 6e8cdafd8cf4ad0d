#pragma once
// A stack of its own to run on, switched by hand: one fiber for each CUDA thread of a block.

#include <cstddef>

namespace emu {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(Fiber&& other) noexcept;
  Fiber& operator=(Fiber&&) = delete;

  // The next enter() calls `entry`, which must not return but end with leave(true).
  void prepare(void (*entry)());
  // Runs the fiber until it calls leave().
  void enter();
  // Inside the fiber: back to whoever entered it.
  void leave(bool for_good);
  // The first thing that `entry` does.
  static void arrived();

  bool on_stack(const void* address) const;

 private:
  char* stack_;
  void* stack_pointer_ = nullptr;
  void* race_id_ = nullptr;  // what ThreadSanitizer knows the fiber as
};

}  // namespace emu

#pragma once
// One block: its threads as fibers, its shared memory, and who waits for whom.

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine.h"
#include "fiber.h"

namespace emu {

constexpr int kWarpSize = 32;

enum class State { kReady, kAtBarrier, kInCollective, kDone };

// One CUDA thread.
struct Thread {
  Fiber fiber;
  int id = 0;  // x first
  uint3 index{};
  State state = State::kReady;
  Site site{};  // where it waits
  Collective collective{};
  uint32_t partners = 0;  // the mask of the last collective, and the parity of each partner's token
  uint32_t partner_parity = 0;
  AsyncCopies copies;
  // How often it has waited. Parity picks one of two tokens, so that the acquire of one barrier
  // does not take in a release of the next.
  unsigned barriers = 0, collectives = 0;
};

class Block {
 public:
  explicit Block(const Launch& launch);
  ~Block();

  // All threads of block blockIdx, from start to end.
  void run();

  Thread& current() { return *current_; }
  void wait_at_barrier(Site site);
  void wait_for_warp(const Collective& what, Site site);
  void* shared_array(const void* key, size_t bytes);

 private:
  struct SharedArray {
    const void* key;
    std::unique_ptr<char[]> memory;
    size_t bytes;
  };

  static void thread_main();
  void start();
  void clear_shared_memory();
  bool run_ready_threads();
  bool complete_collectives();
  bool complete_one(size_t warp);
  bool all_arrived(size_t warp, const Thread& first) const;
  void open_barrier();
  [[noreturn]] void fail(const std::string& what) const;

  void* barrier_token(unsigned parity) { return &tokens_[parity]; }
  void* collective_token(const Thread& t, unsigned parity) {
    return &tokens_[3 + 2 * t.id + parity];
  }

  const Launch& launch_;
  std::vector<Thread> threads_;
  std::vector<int> order_;
  std::mt19937_64 random_;
  Thread* current_ = nullptr;
  std::string fault_;  // of a thread
  std::unique_ptr<char[]> dynamic_;
  std::vector<SharedArray> arrays_;
  // For ThreadSanitizer: addresses that stand for barriers, new ones for every block, and the
  // memory of earlier blocks, which must not be used again.
  std::unique_ptr<uint64_t[]> tokens_;
  std::vector<std::unique_ptr<char[]>> retired_;
  std::vector<std::unique_ptr<uint64_t[]>> retired_tokens_;
  uint64_t launch_token_ = 0, end_token_ = 0;
};

}  // namespace emu

#include "block.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "sanitizers.h"

namespace emu {
namespace {

Block* the_block = nullptr;  // for the fibers' entry, which takes no argument

constexpr size_t kMostStaticShared = 48 << 10;
constexpr int kShared = 2;  // the token of shared_array()

std::unique_ptr<char[]> undefined_memory(size_t bytes) {
  std::unique_ptr<char[]> memory(new char[bytes]);
  std::memset(memory.get(), 0xff, bytes);  // NaN in every floating type
  return memory;
}

}  // namespace

Block::Block(const Launch& launch) : launch_(launch), random_(settings().seed) {
  const size_t count = size_t(blockDim.x) * blockDim.y * blockDim.z;
  threads_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    threads_[i].id = int(i);
    threads_[i].index = {unsigned(i % blockDim.x), unsigned(i / blockDim.x % blockDim.y),
                         unsigned(i / blockDim.x / blockDim.y)};
  }
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0);
  if (settings().order == Order::kReverse) std::reverse(order_.begin(), order_.end());
  if (!kFindsRaces) tokens_.reset(new uint64_t[3 + 2 * count]);
  if (!kFindsRaces) dynamic_.reset(new char[launch.shared_bytes]);
}

// What frees the memory comes after all that its threads did.
Block::~Block() { acquire(&end_token_); }

void Block::run() {
  start();
  for (;;) {
    const bool progress = run_ready_threads() | complete_collectives();
    size_t done = 0, waiting = 0;
    for (const Thread& t : threads_) {
      done += t.state == State::kDone;
      waiting += t.state == State::kAtBarrier;
    }
    if (done == threads_.size()) return;
    if (done + waiting == threads_.size()) {
      if (done > 0) {
        fail("divergent barrier: " + std::to_string(waiting) + " threads wait, " +
             std::to_string(done) + " have exited");
      }
      open_barrier();
    } else if (!progress) {
      fail("deadlock: threads wait for a collective that others do not reach");
    }
  }
}

void Block::start() {
  the_block = this;
  clear_shared_memory();
  shared_window = {dynamic_.get(), launch_.shared_bytes};
  for (Thread& t : threads_) {
    t.state = State::kReady;
    t.copies.pending.clear();
    t.copies.group = 0;
    t.barriers = t.collectives = 0;
    t.fiber.prepare(&Block::thread_main);
  }
  release(&launch_token_);
}

void Block::clear_shared_memory() {
  if (kFindsRaces) {
    for (SharedArray& array : arrays_) retired_.push_back(std::move(array.memory));
    arrays_.clear();
    retired_.push_back(std::move(dynamic_));
    dynamic_ = undefined_memory(launch_.shared_bytes);
    retired_tokens_.push_back(std::move(tokens_));
    tokens_.reset(new uint64_t[3 + 2 * threads_.size()]);
    return;
  }
  for (SharedArray& array : arrays_) std::memset(array.memory.get(), 0xff, array.bytes);
  std::memset(dynamic_.get(), 0xff, launch_.shared_bytes);
}

void Block::thread_main() {
  Fiber::arrived();
  Block& block = *the_block;
  acquire(&block.launch_token_);
  Thread& self = block.current();
  try {
    block.launch_.thread();
  } catch (const std::exception& error) {
    block.fault_ = "thread " + std::to_string(self.id) + ": " + error.what();
  }
  release(&block.end_token_);
  self.state = State::kDone;
  self.fiber.leave(true);
}

bool Block::run_ready_threads() {
  if (settings().order == Order::kRandom) std::shuffle(order_.begin(), order_.end(), random_);
  bool ran = false;
  for (const int i : order_) {
    if (threads_[i].state != State::kReady) continue;
    current_ = &threads_[i];
    threadIdx = current_->index;
    current_->fiber.enter();
    if (!fault_.empty()) throw Fault(fault_);
    ran = true;
  }
  return ran;
}

bool Block::complete_collectives() {
  bool completed = false;
  for (size_t warp = 0; warp < threads_.size(); warp += kWarpSize) {
    while (complete_one(warp)) completed = true;
  }
  return completed;
}

// True if all lanes of the mask wait for the same collective as `first`.
bool Block::all_arrived(size_t warp, const Thread& first) const {
  bool all = true;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((first.collective.mask >> lane & 1) == 0) continue;
    if (warp + lane >= threads_.size() || threads_[warp + lane].state == State::kDone) {
      fail(std::string(first.collective.name) + " at " + to_string(first.site) +
           ": the mask names lane " + std::to_string(lane) + ", which " +
           (warp + lane < threads_.size() ? "has exited" : "does not exist"));
    }
    const Thread& other = threads_[warp + lane];
    all = all && other.state == State::kInCollective &&
          other.collective.mask == first.collective.mask &&
          other.collective.complete == first.collective.complete &&
          other.site.line == first.site.line;
  }
  return all;
}

// Completes one collective of a warp, if there is one whose lanes have all arrived.
bool Block::complete_one(size_t warp) {
  const size_t end = std::min(threads_.size(), warp + kWarpSize);
  for (size_t i = warp; i < end; ++i) {
    const Thread& first = threads_[i];
    if (first.state != State::kInCollective || !all_arrived(warp, first)) continue;
    const uint32_t mask = first.collective.mask;
    uint32_t parity = 0;
    for (size_t t = warp; t < end; ++t) parity |= (threads_[t].collectives - 1 & 1u) << (t - warp);
    const void* in[kWarpSize] = {};
    void* out[kWarpSize] = {};
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      in[lane] = threads_[warp + lane].collective.in;
      out[lane] = threads_[warp + lane].collective.out;
      threads_[warp + lane].state = State::kReady;
      threads_[warp + lane].partners = mask;
      threads_[warp + lane].partner_parity = parity;
    }
    first.collective.complete(in, out);
    return true;
  }
  return false;
}

void Block::open_barrier() {
  const Site site = threads_[0].site;
  for (Thread& t : threads_) {
    if (t.site.line != site.line || std::strcmp(t.site.file, site.file) != 0) {
      fail("threads wait at different barriers");
    }
    t.state = State::kReady;
  }
}

void Block::wait_at_barrier(Site site) {
  Thread& self = *current_;
  void* token = barrier_token(self.barriers++ & 1);
  self.site = site;
  self.state = State::kAtBarrier;
  release(token);
  self.fiber.leave(false);
  acquire(token);
}

void Block::wait_for_warp(const Collective& what, Site site) {
  Thread& self = *current_;
  if ((what.mask >> (self.id % kWarpSize) & 1) == 0) {
    throw Fault(std::string(what.name) + " at " + to_string(site) +
                ": the mask does not name the calling lane");
  }
  self.collective = what;
  self.site = site;
  self.state = State::kInCollective;
  release(collective_token(self, self.collectives++ & 1));
  self.fiber.leave(false);
  if (!kFindsRaces) return;
  const int warp = self.id / kWarpSize * kWarpSize;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((self.partners >> lane & 1) == 0) continue;
    acquire(collective_token(threads_[warp + lane], self.partner_parity >> lane & 1));
  }
}

void* Block::shared_array(const void* key, size_t bytes) {
  size_t total = bytes;
  for (SharedArray& array : arrays_) {
    if (array.key == key) {
      acquire(&tokens_[kShared]);
      return array.memory.get();
    }
    total += array.bytes;
  }
  if (total > kMostStaticShared) throw Fault("more than 48 KiB of static shared memory");
  arrays_.push_back({key, undefined_memory(bytes), bytes});
  release(&tokens_[kShared]);
  return arrays_.back().memory.get();
}

void Block::fail(const std::string& what) const {
  std::string text = what;
  const Thread* before = nullptr;
  int shown = 0;
  for (const Thread& t : threads_) {
    // a thread that waits as the one before it says nothing new
    const bool same =
        before != nullptr && before->state == t.state && before->site.line == t.site.line;
    before = &t;
    if (t.state == State::kReady || same || ++shown > 6) continue;
    text += "\n  from thread " + std::to_string(t.id) + ": ";
    if (t.state == State::kDone) {
      text += "exited";
    } else {
      text +=
          t.state == State::kAtBarrier ? "barrier at " : std::string(t.collective.name) + " at ";
      text += to_string(t.site);
    }
  }
  throw Fault(text);
}

}  // namespace emu

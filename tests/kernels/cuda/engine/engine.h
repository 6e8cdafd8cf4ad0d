#pragma once
// Runs a grid of CUDA threads on one CPU thread: blocks one after another, the threads of a block
// as fibers. A fiber runs until it reaches a barrier or a collective of its warp. In between nobody
// else runs, so which result a missing barrier gives depends on the order alone, and the order can
// be chosen.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace emu {

// Where in the CUDA source something happens.
struct Site {
  const char* file;
  int line;
};
std::string to_string(Site site);

// Something that no CUDA program may do. The message names the place and the thread.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Order : int { kForward, kReverse, kRandom };

struct Settings {
  Order order = Order::kForward;  // of the threads of a block, and of the blocks
  uint64_t seed = 0;              // for kRandom
  dim3 grid{0, 0, 0};             // not 0: instead of what the launch asks for
  dim3 block{0, 0, 0};
  // Of the blocks, counted x first, only these run. Negative ones count from the end of each grid,
  // as in Python; a grid of fewer blocks runs whole.
  int64_t first_block = 0, last_block = -1;
};
Settings& settings();

// What a launch wants, and `thread`, which runs as every thread of the grid.
struct Launch {
  std::string kernel;
  dim3 grid, block;
  size_t shared_bytes;
  const std::function<void()>& thread;
};
void run(const Launch& launch);

// -- called by the threads ------------------------------------------------------------------------

void barrier(Site site);

// All lanes of a mask come together, each with its own `in` and `out`; when the last has arrived,
// `complete` sees those of all 32 lanes, null for a lane that does not take part.
struct Collective {
  uint32_t mask;
  const void* in;
  void* out;
  void (*complete)(const void* const* in, void* const* out);
  const char* name;
};
void collective(const Collective& what, Site site);

int lane_id();
// One array of a block, found again by its key; filled with NaN when the block starts.
void* shared_array(const void* key, size_t bytes);
// The block's dynamic shared memory; translated PTX has its static one in front.
struct SharedWindow {
  char* start;
  size_t bytes;
};
extern SharedWindow shared_window;
bool on_own_stack(const void* address);

// Copies that are under way, of the thread that runs.
struct AsyncCopy {
  void* to;
  const void* from;
  uint32_t bytes, zeros;  // zeros follow
  int group;
};
struct AsyncCopies {
  std::vector<AsyncCopy> pending;
  int group = 0;
};
AsyncCopies& async_copies();

// Copies without a call that ThreadSanitizer would take for an access by the kernel.
void copy_quietly(void* to, const void* from, size_t bytes);

}  // namespace emu

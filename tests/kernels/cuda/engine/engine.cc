#include "engine.h"

#include <algorithm>

#include "block.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emu {

SharedWindow shared_window;

namespace {

constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostBlocksYZ = 65535;
constexpr size_t kMostSharedBytes = 227 << 10;  // of compute capability 9.0

Block* running = nullptr;

std::string triple(unsigned x, unsigned y, unsigned z) {
  return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

void check(const Launch& launch, dim3 grid, dim3 block) {
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || block.z > 64) {
    throw Fault("a block of " + triple(block.x, block.y, block.z) + " threads");
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > kMostBlocksYZ ||
      grid.z > kMostBlocksYZ) {
    throw Fault("a grid of " + triple(grid.x, grid.y, grid.z) + " blocks");
  }
  if (launch.shared_bytes > kMostSharedBytes) {
    throw Fault(std::to_string(launch.shared_bytes) + " bytes of shared memory");
  }
}

void run_blocks(const Launch& launch) {
  const int64_t total = int64_t(gridDim.x) * gridDim.y * gridDim.z;
  const auto counted = [total](int64_t block) { return block < 0 ? total + block : block; };
  const int64_t first = std::max<int64_t>(0, counted(settings().first_block));
  const int64_t last = counted(settings().last_block);
  Block block(launch);
  running = &block;
  for (int64_t i = first; i <= last; ++i) {
    const int64_t b = settings().order == Order::kReverse ? first + last - i : i;
    blockIdx = {unsigned(b % gridDim.x), unsigned(b / gridDim.x % gridDim.y),
                unsigned(b / gridDim.x / gridDim.y)};
    block.run();
  }
}

}  // namespace

std::string to_string(Site site) {
  return std::string(site.file) + ":" + std::to_string(site.line);
}

Settings& settings() {
  static Settings instance;
  return instance;
}

void run(const Launch& launch) {
  const dim3 grid = settings().grid.x > 0 ? settings().grid : launch.grid;
  const dim3 block = settings().block.x > 0 ? settings().block : launch.block;
  try {
    check(launch, grid, block);
    gridDim = grid;
    blockDim = block;
    run_blocks(launch);
  } catch (const Fault& fault) {
    const bool inside = running != nullptr;
    running = nullptr;
    throw Fault(launch.kernel +
                (inside ? ", block " + triple(blockIdx.x, blockIdx.y, blockIdx.z) : "") + ": " +
                fault.what());
  }
  running = nullptr;
}

void barrier(Site site) { running->wait_at_barrier(site); }
void collective(const Collective& what, Site site) { running->wait_for_warp(what, site); }
int lane_id() { return running->current().id % kWarpSize; }
void* shared_array(const void* key, size_t bytes) { return running->shared_array(key, bytes); }
bool on_own_stack(const void* address) { return running->current().fiber.on_stack(address); }
AsyncCopies& async_copies() { return running->current().copies; }

void copy_quietly(void* to, const void* from, size_t bytes) {
  // volatile: the compiler may not make a memcpy of it
  auto* target = static_cast<volatile char*>(to);
  auto* source = static_cast<const volatile char*>(from);
  for (size_t i = 0; i < bytes; ++i) target[i] = source[i];
}

}  // namespace emu

#include "warp.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

namespace emu {
namespace {

constexpr uint32_t kFullWarp = 0xffffffffu;
constexpr int kLanes = 32;

struct ShuffleIn {
  const void* value;
  uint32_t bytes;
  int source;
};

void complete_shuffle(const void* const* in, void* const* out) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if (in[lane] == nullptr) continue;
    const auto& mine = *static_cast<const ShuffleIn*>(in[lane]);
    const auto* other = static_cast<const ShuffleIn*>(in[mine.source]);
    static const uint64_t nothing[2] = {~uint64_t(0), ~uint64_t(0)};
    copy_quietly(out[lane], other == nullptr ? nothing : other->value, mine.bytes);
  }
}

void complete_ballot(const void* const* in, void* const* out) {
  uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (in[lane] != nullptr) bits |= uint32_t(*static_cast<const bool*>(in[lane])) << lane;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if (out[lane] != nullptr) copy_quietly(out[lane], &bits, sizeof(bits));
  }
}

// The fragments of one lane.
struct MmaIn {
  uint32_t a[4], b[2];
  float c[4];
};

float to_float(__half v) { return __half2float(v); }
float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

template <typename Half>
Half half_of(uint32_t word, int which) {
  const uint16_t bits = static_cast<uint16_t>(word >> (16 * which));
  Half half;
  std::memcpy(static_cast<void*>(&half), &bits, sizeof(bits));
  return half;
}

// Both element widths lay out one 32-bit register alike: of 16-bit elements it holds two
// neighbours, of tf32 one element.
template <typename Half>
struct Elements16 {
  static constexpr int kDepth = 16;
  static void unpack(const MmaIn& in, int lane, float a[16][16], float b[16][8]) {
    const int group = lane >> 2, t = lane & 3;
    for (int r = 0; r < 4; ++r) {
      for (int i = 0; i < 2; ++i) {
        a[group + 8 * (r & 1)][2 * t + i + 8 * (r >> 1)] = to_float(half_of<Half>(in.a[r], i));
      }
    }
    for (int r = 0; r < 2; ++r) {
      for (int i = 0; i < 2; ++i) b[2 * t + i + 8 * r][group] = to_float(half_of<Half>(in.b[r], i));
    }
  }
};

struct ElementsTf32 {
  static constexpr int kDepth = 8;
  static float value(uint32_t bits) {
    bits &= 0xffffe000u;  // a tensor core does not look at the last 13 bits
    float v;
    std::memcpy(&v, &bits, sizeof(v));
    return v;
  }
  static void unpack(const MmaIn& in, int lane, float a[16][16], float b[16][8]) {
    const int group = lane >> 2, t = lane & 3;
    for (int r = 0; r < 4; ++r) a[group + 8 * (r & 1)][t + 4 * (r >> 1)] = value(in.a[r]);
    for (int r = 0; r < 2; ++r) b[t + 4 * r][group] = value(in.b[r]);
  }
};

template <typename Elements>
void complete_mma(const void* const* in, void* const* out) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    Elements::unpack(*static_cast<const MmaIn*>(in[lane]), lane, a, b);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    float d[4];
    for (int i = 0; i < 4; ++i) {
      const int row = (lane >> 2) + 8 * (i >> 1), column = 2 * (lane & 3) + (i & 1);
      double sum = static_cast<const MmaIn*>(in[lane])->c[i];
      for (int k = 0; k < Elements::kDepth; ++k) sum += double(a[row][k]) * b[k][column];
      d[i] = float(sum);
    }
    copy_quietly(out[lane], d, sizeof(d));
  }
}

template <typename Elements>
void mma(float* d, const uint32_t* a, const uint32_t* b, const float* c, Site site) {
  MmaIn in;
  std::memcpy(in.a, a, sizeof(in.a));
  std::memcpy(in.b, b, sizeof(in.b));
  std::memcpy(in.c, c, sizeof(in.c));
  collective({kFullWarp, &in, d, &complete_mma<Elements>, "mma"}, site);
}

}  // namespace

void sync_warp(uint32_t mask, Site site) {
  collective({mask, nullptr, nullptr, [](const void* const*, void* const*) {}, "syncwarp"}, site);
}

uint32_t ballot(uint32_t mask, bool predicate, Site site) {
  uint32_t bits = 0;
  collective({mask, &predicate, &bits, &complete_ballot, "vote"}, site);
  return bits;
}

bool shuffle(Shuffle mode, uint32_t mask, const void* value, void* result, uint32_t bytes,
             uint32_t operand, uint32_t clamp, Site site) {
  const int lane = lane_id(), segment = clamp >> 8 & 31, last = clamp & 31, b = operand & 31;
  const int highest = (lane & segment) | (last & ~segment);
  const int lowest = lane & segment;
  int source = lane;
  switch (mode) {
    case Shuffle::kUp:
      source = lane - b;
      break;
    case Shuffle::kDown:
      source = lane + b;
      break;
    case Shuffle::kXor:
      source = lane ^ b;
      break;
    case Shuffle::kIndex:
      source = lowest | (b & ~segment);
      break;
  }
  const bool inside = mode == Shuffle::kUp ? source >= highest : source <= highest;
  const ShuffleIn in{value, bytes, inside ? source : lane};
  collective({mask, &in, result, &complete_shuffle, "shuffle"}, site);
  return inside;
}

void mma_m16n8k16_f16(float* d, const uint32_t* a, const uint32_t* b, const float* c, Site site) {
  mma<Elements16<__half>>(d, a, b, c, site);
}
void mma_m16n8k16_bf16(float* d, const uint32_t* a, const uint32_t* b, const float* c, Site site) {
  mma<Elements16<__nv_bfloat16>>(d, a, b, c, site);
}
void mma_m16n8k8_tf32(float* d, const uint32_t* a, const uint32_t* b, const float* c, Site site) {
  mma<ElementsTf32>(d, a, b, c, site);
}

void async_copy(void* to, const void* from, uint32_t bytes, uint32_t zeros) {
  AsyncCopies& copies = async_copies();
  copies.pending.push_back({to, from, bytes, zeros, copies.group});
}

void async_commit() { ++async_copies().group; }

void async_wait(int groups_left) {
  AsyncCopies& copies = async_copies();
  size_t done = 0;
  for (const AsyncCopy& copy : copies.pending) {
    if (copy.group >= copies.group - groups_left) break;
    // Here ThreadSanitizer shall see who reads and writes.
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
    if (copy.zeros > 0) std::memset(static_cast<char*>(copy.to) + copy.bytes, 0, copy.zeros);
    ++done;
  }
  copies.pending.erase(copies.pending.begin(), copies.pending.begin() + long(done));
}

}  // namespace emu

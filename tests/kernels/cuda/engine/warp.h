#pragma once
// What the lanes of a warp do together, and copies that end later. Shared by both front ends.

#include <cstdint>

#include "engine.h"

namespace emu {

void sync_warp(uint32_t mask, Site site);
uint32_t ballot(uint32_t mask, bool predicate, Site site);

enum class Shuffle : int { kUp, kDown, kXor, kIndex };
// Copies `bytes` bytes of the source lane's value. The source is this lane itself where the PTX
// manual says so (the answer is then false); from a lane outside of the mask comes NaN.
// `clamp` is the PTX operand c: the segment mask in bits 8 to 12, the last lane in bits 0 to 4.
bool shuffle(Shuffle mode, uint32_t mask, const void* value, void* result, uint32_t bytes,
             uint32_t operand, uint32_t clamp, Site site);

// d = a b + c for one warp, every lane with its part of the fragments as PTX lays them out; the sum
// of a row is formed in double and rounded once, which no tensor core does exactly.
void mma_m16n8k16_f16(float* d, const uint32_t* a, const uint32_t* b, const float* c, Site site);
void mma_m16n8k16_bf16(float* d, const uint32_t* a, const uint32_t* b, const float* c, Site site);
void mma_m16n8k8_tf32(float* d, const uint32_t* a, const uint32_t* b, const float* c, Site site);

// cp.async: nothing is copied before the wait, so that a missing wait shows.
void async_copy(void* to, const void* from, uint32_t bytes, uint32_t zeros);
void async_commit();
void async_wait(int groups_left);

}  // namespace emu

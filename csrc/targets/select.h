#pragma once
// Picks, at run time, which build of the loops this machine can run.

#include <cstdlib>
#include <cstring>

namespace paddle_ops {

enum class Target : int { kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };

// The best the CPU offers; PADDLE_OPS_TARGET=baseline|avx2|avx512 asks for a lesser one (for
// tests).
inline Target select_target() {
  Target best = Target::kBaseline;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = Target::kAvx2;
  if (best == Target::kAvx2 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    best = Target::kAvx512;
  }
#endif
  const char* asked = std::getenv("PADDLE_OPS_TARGET");
  if (asked == nullptr) return best;
  Target wanted = best;
  if (std::strcmp(asked, "baseline") == 0) wanted = Target::kBaseline;
  if (std::strcmp(asked, "avx2") == 0) wanted = Target::kAvx2;
  return wanted < best ? wanted : best;
}

}  // namespace paddle_ops

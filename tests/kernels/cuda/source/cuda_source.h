#pragma once
// CUDA for g++: included before a kernel's source. The runtime's types come from CUDA's own
// headers, which g++ can read; what nvcc builds in is here. A function with inline PTX needs
// another version under !defined(__CUDACC__), for which engine/warp.h has the parts.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include "engine/engine.h"
#include "engine/runtime.h"
#include "engine/warp.h"

#undef __launch_bounds__
#define __launch_bounds__(...)

#define EMU_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define EMU_HERE (emu::Site{file, line})

constexpr int warpSize = 32;

// -- threads --------------------------------------------------------------------------------------

inline void __syncthreads(EMU_SITE) { emu::barrier(EMU_HERE); }
inline void __syncwarp(unsigned mask = ~0u, EMU_SITE) { emu::sync_warp(mask, EMU_HERE); }
inline void __threadfence() {}
inline void __threadfence_block() {}

inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_SITE) {
  return emu::ballot(mask, predicate != 0, EMU_HERE);
}
inline int __any_sync(unsigned mask, int predicate, EMU_SITE) {
  return emu::ballot(mask, predicate != 0, EMU_HERE) != 0;
}
inline int __all_sync(unsigned mask, int predicate, EMU_SITE) {
  return emu::ballot(mask, predicate == 0, EMU_HERE) == 0;
}

namespace emu {

template <typename T>
T shuffle_value(Shuffle mode, unsigned mask, T value, int operand, int width, Site site) {
  static_assert(sizeof(T) <= 16, "more than 16 bytes");
  T result;
  const unsigned clamp = (32u - unsigned(width)) << 8 | (mode == Shuffle::kUp ? 0u : 31u);
  shuffle(mode, mask, &value, &result, sizeof(T), uint32_t(operand), clamp, site);
  return result;
}

}  // namespace emu

template <typename T>
T __shfl_sync(unsigned mask, T v, int lane, int width = 32, EMU_SITE) {
  return emu::shuffle_value(emu::Shuffle::kIndex, mask, v, lane, width, EMU_HERE);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, EMU_SITE) {
  return emu::shuffle_value(emu::Shuffle::kUp, mask, v, int(delta), width, EMU_HERE);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, EMU_SITE) {
  return emu::shuffle_value(emu::Shuffle::kDown, mask, v, int(delta), width, EMU_HERE);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32, EMU_SITE) {
  return emu::shuffle_value(emu::Shuffle::kXor, mask, v, lanes, width, EMU_HERE);
}

// -- memory ---------------------------------------------------------------------------------------

namespace emu {

// *p = f(*p), as one step for ThreadSanitizer; what was there.
template <typename T, typename F>
T atomically(T* p, F f) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  auto* address = reinterpret_cast<Bits*>(p);
  Bits old = __atomic_load_n(address, __ATOMIC_RELAXED), bits;
  T before, after;
  do {
    std::memcpy(static_cast<void*>(&before), &old, sizeof(before));
    after = f(before);
    std::memcpy(&bits, static_cast<const void*>(&after), sizeof(bits));
  } while (
      !__atomic_compare_exchange_n(address, &old, bits, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return before;
}

template <typename T>
struct Same {
  using type = T;
};
template <typename T>
using SameT = typename Same<T>::type;

}  // namespace emu

template <typename T>
T atomicAdd(T* p, emu::SameT<T> v) {
  return emu::atomically(p, [v](T old) -> T { return old + v; });
}
template <typename T>
T atomicMax(T* p, emu::SameT<T> v) {
  return emu::atomically(p, [v](T old) -> T { return old < v ? v : old; });
}
template <typename T>
T atomicMin(T* p, emu::SameT<T> v) {
  return emu::atomically(p, [v](T old) -> T { return v < old ? v : old; });
}
template <typename T>
T atomicExch(T* p, emu::SameT<T> v) {
  return emu::atomically(p, [v](T) -> T { return v; });
}
template <typename T>
T atomicCAS(T* p, emu::SameT<T> expected, emu::SameT<T> v) {
  return emu::atomically(p, [=](T old) -> T { return old == expected ? v : old; });
}
template <typename T>
T __ldg(const T* p) {
  return *p;
}

// -- arithmetic -----------------------------------------------------------------------------------

inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float a) { return 1.f / std::sqrt(a); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
using std::max;
using std::min;

// -- launches -------------------------------------------------------------------------------------

namespace emu {

template <typename... P, size_t... I>
void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<P*>(arguments[I])...);
}

}  // namespace emu

// More special than the template of the same name in cuda_runtime.h.
template <typename... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes, cudaStream_t) {
  if (!emu::shared_memory_allowed(reinterpret_cast<const void*>(kernel), shared_bytes, 0)) {
    return emu::remember(cudaErrorInvalidValue);
  }
  const std::function<void()> thread = [&] {
    emu::call(kernel, arguments, std::index_sequence_for<P...>());
  };
  Dl_info symbol{};
  const bool named = dladdr(reinterpret_cast<const void*>(kernel), &symbol) != 0;
  const char* name = named && symbol.dli_sname != nullptr ? symbol.dli_sname : "a kernel";
  return emu::run_and_report({emu::readable(name), grid, block, shared_bytes, thread});
}

#pragma once
// Vectors by the compiler's own extension: one text, lowered to whatever the target has.

#include <cstdint>
#include <cstring>

#include "kernels/common/hostdevice.h"
#include "kernels/common/target.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename T, int kLanes>
struct VecOf {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T))));
};
template <typename T, int kLanes>
using Vec = typename VecOf<T, kLanes>::type;

// The target's full vector.
template <typename T>
constexpr int kFullLanes = PO_VECTOR_BYTES / static_cast<int>(sizeof(T));

template <typename V, typename T>
PO_HOSTDEVICE V load_vec(const T* from) {
  V v;
  memcpy(&v, from, sizeof(v));
  return v;
}

template <typename V, typename T>
PO_HOSTDEVICE void store_vec(T* to, V v) {
  memcpy(to, &v, sizeof(v));
}

// A comparison's result as a vector. GCC 12 would keep it in one of AVX-512's mask registers and,
// having no operations there, combine two of them bit by bit.
template <typename M>
PO_HOSTDEVICE M settled(M mask) {
#if defined(PO_TARGET_AVX512)
  if constexpr (sizeof(M) <= PO_VECTOR_BYTES) asm("" : "+v"(mask));
#endif
  return mask;
}

// A vector as the formulas' Number (see bilinear.h): kLanes values beside kLanes indices.
template <typename acc_t, typename index_type, int kLanes>
struct VectorNumber {
  using scalar_t = acc_t;
  using value_t = Vec<acc_t, kLanes>;
  using index_t = Vec<index_type, kLanes>;
  using unsigned_t = Vec<std::make_unsigned_t<index_type>, kLanes>;
  using value_mask = decltype(value_t{} < value_t{});
  using index_mask = decltype(index_t{} < index_t{});

  template <typename... M>
  static PO_HOSTDEVICE auto all(M... masks) {
    return (settled(masks) & ...);
  }
  template <typename... M>
  static PO_HOSTDEVICE auto any(M... masks) {
    return (settled(masks) | ...);
  }
  static PO_HOSTDEVICE value_t floor(value_t v) {
    value_t down;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) down[i] = std::floor(v[i]);
    return down;
  }
  static PO_HOSTDEVICE index_t to_index(value_t v) { return __builtin_convertvector(v, index_t); }
  static PO_HOSTDEVICE index_t add_wrapping(index_t a, index_t b) {
    return (index_t)((unsigned_t)a + (unsigned_t)b);
  }
  static PO_HOSTDEVICE index_mask as_index_mask(value_mask m) {
    return __builtin_convertvector(settled(m), index_mask);
  }
  static PO_HOSTDEVICE value_mask as_value_mask(index_mask m) {
    return __builtin_convertvector(settled(m), value_mask);
  }
};

// Transposes [kLanes rows][kColumns], which kColumns vectors hold in order, into [kColumns rows]
// [kLanes]: each round separates the elements at even places from those at odd ones.
template <typename T, int kLanes, int kColumns = kLanes>
PO_HOSTDEVICE void transpose(Vec<T, kLanes>* v) {
  using V = Vec<T, kLanes>;
  using Order = decltype(V{} < V{});
  Order even, odd;
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    even[i] = 2 * i;
    odd[i] = 2 * i + 1;
  }
#pragma GCC unroll 4
  for (int round = 1; round < kColumns; round *= 2) {
    V next[kColumns];
#pragma GCC unroll 8
    for (int i = 0; i < kColumns / 2; ++i) {
      next[i] = __builtin_shuffle(v[2 * i], v[2 * i + 1], even);
      next[i + kColumns / 2] = __builtin_shuffle(v[2 * i], v[2 * i + 1], odd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kColumns; ++i) v[i] = next[i];
  }
}

}  // namespace PO_TARGET
}  // namespace paddle_ops

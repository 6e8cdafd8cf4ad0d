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

// A vector as the formulas' Number (see bilinear.h): kLanes values beside kLanes indices.
template <typename acc_t, typename index_type, int kLanes>
struct VectorNumber {
  using scalar_t = acc_t;
  using value_t = Vec<acc_t, kLanes>;
  using index_t = Vec<index_type, kLanes>;
  using unsigned_t = Vec<std::make_unsigned_t<index_type>, kLanes>;
  using value_mask = decltype(value_t{} < value_t{});
  using index_mask = decltype(index_t{} < index_t{});

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
    return __builtin_convertvector(m, index_mask);
  }
  static PO_HOSTDEVICE value_mask as_value_mask(index_mask m) {
    return __builtin_convertvector(m, value_mask);
  }
};

// Transposes kLanes vectors in registers: each round interleaves the first half with the second.
template <typename T, int kLanes>
PO_HOSTDEVICE void transpose(Vec<T, kLanes>* v) {
  using V = Vec<T, kLanes>;
  using Order = decltype(V{} < V{});
  Order low, high;
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    low[i] = i / 2 + (i % 2 ? kLanes : 0);
    high[i] = low[i] + kLanes / 2;
  }
#pragma GCC unroll 4
  for (int round = 1; round < kLanes; round *= 2) {
    V next[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = __builtin_shuffle(v[i], v[i + kLanes / 2], low);
      next[2 * i + 1] = __builtin_shuffle(v[i], v[i + kLanes / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) v[i] = next[i];
  }
}

}  // namespace PO_TARGET
}  // namespace paddle_ops

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

}  // namespace PO_TARGET
}  // namespace paddle_ops

#pragma once
// A few neighbouring elements of a tensor in registers, as numbers to compute with: moved 128 bits
// at a time, whatever the element type is.

#include <cstdint>
#include <cstring>

#include "kernels/common/launch.cuh"

namespace paddle_ops {
namespace cuda {

// What one memory instruction moves.
template <int kBytes>
struct Word;
template <>
struct Word<1> {
  using type = uint8_t;
};
template <>
struct Word<2> {
  using type = uint16_t;
};
template <>
struct Word<4> {
  using type = uint32_t;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};

constexpr int kWordBytes = 16;

// What the address of `count` elements must be a multiple of to be moved as a pack.
constexpr int64_t pack_alignment(DType dtype, int count) {
  return count * size_of(dtype) < kWordBytes ? count * size_of(dtype) : kWordBytes;
}

template <typename acc_t, int kCount>
struct Pack {
  acc_t at[kCount];

  // from[0 ... kCount], at an address that is a multiple of pack_alignment.
  template <typename T>
  __device__ __forceinline__ void load_as(const T* from) {
    using W = typename Words<T>::type;
    constexpr int kEach = Words<T>::kEach;
#pragma unroll
    for (int w = 0; w < kCount / kEach; ++w) {
      const W word = reinterpret_cast<const W*>(from)[w];
      T elements[kEach];
      memcpy(elements, &word, sizeof(word));
#pragma unroll
      for (int i = 0; i < kEach; ++i) at[w * kEach + i] = load_element<acc_t>(elements + i);
    }
  }

  template <typename T>
  __device__ __forceinline__ void store_as(T* to) const {
    using W = typename Words<T>::type;
    constexpr int kEach = Words<T>::kEach;
#pragma unroll
    for (int w = 0; w < kCount / kEach; ++w) {
      T elements[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) store_element(elements + i, at[w * kEach + i]);
      W word;
      memcpy(&word, elements, sizeof(word));
      reinterpret_cast<W*>(to)[w] = word;
    }
  }

  // Elements `start` and following of a tensor of any type.
  template <typename index_t>
  __device__ __forceinline__ void load(ConstData tensor, index_t start) {
    switch (tensor.dtype) {
      case DType::kFloat32:
        return load_as(static_cast<const float*>(tensor.data) + start);
      case DType::kFloat64:
        return load_as(static_cast<const double*>(tensor.data) + start);
      case DType::kFloat16:
        return load_as(static_cast<const Float16*>(tensor.data) + start);
      case DType::kBFloat16:
        return load_as(static_cast<const BFloat16*>(tensor.data) + start);
      case DType::kBool:
      case DType::kUInt8:
        return load_as(static_cast<const uint8_t*>(tensor.data) + start);
      case DType::kInt8:
        return load_as(static_cast<const int8_t*>(tensor.data) + start);
      case DType::kInt16:
        return load_as(static_cast<const int16_t*>(tensor.data) + start);
      case DType::kInt32:
        return load_as(static_cast<const int32_t*>(tensor.data) + start);
      case DType::kInt64:
        return load_as(static_cast<const int64_t*>(tensor.data) + start);
    }
  }

  // Of one of the four floating types.
  template <typename index_t>
  __device__ __forceinline__ void store(MutableData tensor, index_t start) const {
    switch (tensor.dtype) {
      case DType::kFloat64:
        return store_as(static_cast<double*>(tensor.data) + start);
      case DType::kFloat16:
        return store_as(static_cast<Float16*>(tensor.data) + start);
      case DType::kBFloat16:
        return store_as(static_cast<BFloat16*>(tensor.data) + start);
      default:
        return store_as(static_cast<float*>(tensor.data) + start);
    }
  }

  __device__ __forceinline__ void fill(acc_t value) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) at[i] = value;
  }

 private:
  // How kCount elements of a type are cut into words.
  template <typename T>
  struct Words {
    static constexpr int kAll = kCount * static_cast<int>(sizeof(T));
    static constexpr int kBytes = kAll < kWordBytes ? kAll : kWordBytes;
    static constexpr int kEach = kBytes / static_cast<int>(sizeof(T));
    using type = typename Word<kBytes>::type;
  };
};

}  // namespace cuda
}  // namespace paddle_ops

#pragma once
// Element types by name, and half precision by bit arithmetic so that every compiler gives the same
// number. Conversions to half round once, to nearest even; so do the GPU's own instructions for
// them.

#include <cstdint>
#include <cstring>

#include "kernels/common/hostdevice.h"

namespace paddle_ops {

enum class DType : int {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
};

template <typename To, typename From>
PO_HOSTDEVICE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// Storage of the two half types; arithmetic happens in float.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

PO_HOSTDEVICE float to_float(BFloat16 v) {
  return bit_cast<float>(static_cast<uint32_t>(v.bits) << 16);
}

PO_HOSTDEVICE float to_float(Float16 v) {
#if defined(__CUDA_ARCH__)
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
  return f;
#else
  const uint32_t magnitude = v.bits & 0x7fffu;
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000u) << 16;
  // Rebias the exponent by 112; Inf and NaN (exponent 31) need it twice to reach 255.
  const uint32_t rebias = magnitude >= 0x7c00u ? (224u << 23) : (112u << 23);
  const uint32_t normal = (magnitude << 13) + rebias;
  // Subnormals go through the integer so that a flush-to-zero mode cannot lose them.
  const float subnormal =
      static_cast<float>(static_cast<int32_t>(magnitude)) * 5.9604644775390625e-8f;
  const uint32_t bits = magnitude < 0x0400u ? bit_cast<uint32_t>(subnormal) : normal;
  return bit_cast<float>(sign | bits);
#endif
}

PO_HOSTDEVICE BFloat16 to_bfloat16(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  BFloat16 half;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half.bits) : "f"(v));
  return half;
#else
  const uint32_t bits = bit_cast<uint32_t>(v);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x0040u;  // rounding could carry a NaN into Inf
  return BFloat16{static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
#endif
}

PO_HOSTDEVICE Float16 to_float16(float v) {
#if defined(__CUDA_ARCH__)
  Float16 half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(v));
  return half;
#else
  const uint32_t bits = bit_cast<uint32_t>(v);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rebased = magnitude - (112u << 23);
  const uint32_t normal = (rebased + 0x0fffu + ((rebased >> 13) & 1u)) >> 13;
  // One unit of 0.5f's last place is 2^-24, the half subnormal step: the addition rounds for us.
  const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x47800000u ? special : half;
  return Float16{static_cast<uint16_t>((bits >> 16 & 0x8000u) | half)};
#endif
}

// The number that an element stands for.
template <typename T>
PO_HOSTDEVICE T element(T v) {
  return v;
}
PO_HOSTDEVICE float element(Float16 v) { return to_float(v); }
PO_HOSTDEVICE float element(BFloat16 v) { return to_float(v); }

// The type that sums are formed in, by element type.
constexpr bool accumulates_in_double(DType dtype) { return dtype == DType::kFloat64; }

constexpr int64_t size_of(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kInt64                         ? 8
         : dtype == DType::kFloat32 || dtype == DType::kInt32                       ? 4
         : dtype == DType::kBool || dtype == DType::kUInt8 || dtype == DType::kInt8 ? 1
                                                                                    : 2;
}

// A tensor's memory and element type; null when the tensor is absent.
struct ConstData {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
};
struct MutableData {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
};

}  // namespace paddle_ops

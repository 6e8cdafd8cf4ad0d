#pragma once
// What the C++ that translate.py writes calls. Registers hold bits: as<T>() reads them as a type,
// put() writes them.

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "engine/kernels.h"
#include "engine/memory.h"
#include "engine/warp.h"

using u128 = unsigned __int128;

namespace {

template <typename T, typename U>
inline T as(U v) {
  if constexpr (sizeof(T) == sizeof(U)) {
    T t;
    std::memcpy(&t, &v, sizeof(t));
    return t;
  } else if constexpr (std::is_integral<U>::value && std::is_integral<T>::value) {
    return static_cast<T>(v);
  } else {
    static_assert(sizeof(T) < sizeof(U), "a register is too narrow");
    T t;
    std::memcpy(&t, &v, sizeof(t));
    return t;
  }
}

template <typename D, typename T>
inline void put(D& d, T v) {
  if constexpr (sizeof(D) == sizeof(T)) {
    std::memcpy(&d, &v, sizeof(d));
  } else {
    static_assert(std::is_integral<D>::value && std::is_integral<T>::value, "widths differ");
    d = static_cast<D>(v);
  }
}

template <typename T>
inline T get(const char* p) {
  T t;
  std::memcpy(&t, p, sizeof(t));
  return t;
}

template <typename T>
inline void set(char* p, T v) {
  std::memcpy(p, &v, sizeof(v));
}

// -- atomics --------------------------------------------------------------------------------------

template <typename T>
using BitsOf =
    std::conditional_t<sizeof(T) == 8, uint64_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t,
                                          std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;

template <typename T>
T atomic_cas(char* p, T expected, T value) {
  auto bits = as<BitsOf<T>>(expected);
  __atomic_compare_exchange_n(reinterpret_cast<BitsOf<T>*>(p), &bits, as<BitsOf<T>>(value), false,
                              __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return as<T>(bits);
}

// *p = f(*p, v), as one step for ThreadSanitizer; what was there.
template <typename T, typename F>
T atomic(char* p, T v, F f) {
  auto* address = reinterpret_cast<BitsOf<T>*>(p);
  BitsOf<T> old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(address, &old,
                                      as<BitsOf<T>>(static_cast<T>(f(as<T>(old), v))), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return as<T>(old);
}

// -- half types -----------------------------------------------------------------------------------

inline float half_to_float(uint16_t bits) {
  const float magnitude = as<float>(uint32_t(bits & 0x7fff) << 13) * 0x1p112f;
  const bool special = (bits & 0x7c00) == 0x7c00;
  const uint32_t word =
      special ? 0x7f800000u | uint32_t(bits & 0x3ff) << 13 : as<uint32_t>(magnitude);
  return as<float>(word | uint32_t(bits & 0x8000) << 16);
}

// The bits of a floating type of `fraction` bits whose exponents end at `lowest`, from the nearest
// number, ties to even. Too large ones run over into the bits of infinity by themselves.
inline uint16_t round_to_bits(double v, int fraction, int lowest, uint16_t infinity) {
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  if (v != v) return 0x7fff;
  if (std::isinf(v)) return sign | infinity;
  if (v == 0) return sign;
  int exponent = 0;
  std::frexp(v, &exponent);
  // the unit in the last place is 2^exponent
  exponent = std::max(exponent - 1, lowest) - fraction;
  const auto units = uint32_t(std::nearbyint(std::ldexp(std::fabs(v), -exponent)));
  const uint32_t bits = (uint32_t(exponent + fraction - lowest) << fraction) + units;
  return sign | uint16_t(std::min<uint32_t>(bits, infinity));
}

inline float bfloat_to_float(uint16_t bits) { return as<float>(uint32_t(bits) << 16); }

template <int kBrain, int kPair>
struct Half {
  static float widen(uint16_t v) { return kBrain ? bfloat_to_float(v) : half_to_float(v); }
  static uint16_t round(double v) {
    return kBrain ? round_to_bits(v, 7, -126, 0x7f80) : round_to_bits(v, 10, -14, 0x7c00);
  }

  // A function of doubles as one on the bits of halves; arguments that it does not need are 0.
  template <typename F>
  static auto lift(F f) {
    return [f](uint32_t x, uint32_t y, uint32_t z = 0) {
      const auto one = [&](int s) -> uint32_t {
        const auto part = [s](uint32_t v) -> double { return widen(uint16_t(v >> s)); };
        return round(f(part(x), part(y), part(z)));
      };
      if constexpr (kPair) {
        return one(0) | one(16) << 16;
      } else {
        return uint16_t(one(0));
      }
    };
  }
};

inline uint32_t round_to_tf32(uint32_t bits) {  // to nearest, ties away from zero
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}

// -- floating point -------------------------------------------------------------------------------

template <typename T>
inline T flush(T v) {  // subnormal numbers to zero
  return std::fabs(v) < std::numeric_limits<T>::min() ? std::copysign(T(0), v) : v;
}

template <typename T>
inline T saturate(T v) {
  return v > T(0) ? (v < T(1) ? v : T(1)) : T(0);  // NaN becomes 0
}

// f(x, y, z) in another rounding mode. volatile: the compiler knows nothing of the mode.
template <typename T, typename F>
__attribute__((noinline)) T directed(int mode, T x, T y, T z, F f) {
  std::fesetround(mode);
  volatile T vx = x, vy = y, vz = z;
  volatile T result = f(vx, vy, vz);
  std::fesetround(FE_TONEAREST);
  return result;
}

template <typename I, typename F>
inline I to_integer(F v) {  // saturates; NaN becomes 0
  using Limits = std::numeric_limits<I>;
  if (v != v) return 0;
  if (v <= F(Limits::min())) return Limits::min();
  if (v >= F(Limits::max())) return Limits::max();
  return static_cast<I>(v);
}

// -- integers -------------------------------------------------------------------------------------

template <typename T>
inline T quotient(T a, T b, emu::Site site) {
  if (b == 0) throw emu::Fault("integer division by zero at " + emu::to_string(site));
  return b == T(-1) ? T(0 - BitsOf<T>(a)) : T(a / b);
}

template <typename T>
inline T remainder(T a, T b, emu::Site site) {
  if (b == 0) throw emu::Fault("integer division by zero at " + emu::to_string(site));
  return std::is_signed<T>::value && b == T(-1) ? T(0) : T(a % b);
}

template <typename U>
inline uint32_t count_leading_zeros(U v) {
  if (v == 0) return 8 * sizeof(U);
  return uint32_t(__builtin_clzll(v)) - (64 - 8 * sizeof(U));
}

template <typename U>
inline U reverse_bits(U v) {
  U r = 0;
  for (unsigned i = 0; i < 8 * sizeof(U); ++i) r = U(r << 1) | U(v >> i & 1);
  return r;
}

template <typename T>
inline uint32_t find_first(T v, bool shift_amount) {
  using U = std::make_unsigned_t<T>;
  const U u = std::is_signed<T>::value && v < 0 ? U(~v) : U(v);
  if (u == 0) return 0xffffffffu;
  const uint32_t zeros = count_leading_zeros(u);
  return shift_amount ? zeros : 8 * sizeof(U) - 1 - zeros;
}

template <typename U>
inline U insert_field(U field, U into, uint32_t position, uint32_t length) {
  constexpr uint32_t kBits = 8 * sizeof(U);
  position &= 255, length &= 255;
  if (position >= kBits || length == 0) return into;
  const U mask = (length >= kBits ? ~U(0) : (U(1) << length) - 1) << position;
  return (into & ~mask) | ((field << position) & mask);
}

template <typename T>
inline T extract_field(T v, uint32_t position, uint32_t length) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = 8 * sizeof(U);
  position &= 255, length &= 255;
  if (length == 0) return 0;
  const uint32_t top = std::min(position + length - 1, kBits - 1);
  const U sign = std::is_signed<T>::value ? U(v) >> top & 1 : 0;
  const U field = position < kBits ? U(v) >> position : 0;
  const uint32_t present = position < kBits ? std::min(length, kBits - position) : 0;
  const U mask = present >= kBits ? ~U(0) : (U(1) << present) - 1;
  return T((field & mask) | (sign ? ~mask : U(0)));
}

inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t source = uint64_t(b) << 32 | a;
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t pick = selector >> (4 * i) & 15;
    uint32_t byte = uint32_t(source >> (8 * (pick & 7))) & 255;
    if (pick & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << (8 * i);
  }
  return r;
}

inline uint32_t logic3(uint32_t a, uint32_t b, uint32_t c, int table) {
  uint32_t r = 0;
  for (int i = 0; i < 8; ++i) {
    if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  }
  return r;
}

inline uint32_t funnel_shift(bool left, bool clamp, uint32_t low, uint32_t high, uint32_t amount) {
  amount = clamp ? std::min(amount, 32u) : amount & 31;
  const uint64_t both = uint64_t(high) << 32 | low;
  return left ? uint32_t((both << amount) >> 32) : uint32_t(both >> amount);
}

template <typename U>
inline U shift_left(U v, uint32_t amount) {
  return amount >= 8 * sizeof(U) ? U(0) : U(v << amount);
}

template <typename T>
inline T shift_right(T v, uint32_t amount) {
  if (amount >= 8 * sizeof(T)) return std::is_signed<T>::value && v < T(0) ? T(-1) : T(0);
  return T(v >> amount);
}

}  // namespace

#pragma once
// exp and log1p without branches, tables or calls, so that a loop over them becomes vector code on
// every instruction set and the same function on every device. Error: at most 1.1 ulp.
//
// Both are restricted to what a stable log(1 + exp(-|x|)) needs, which spares the other cases'
// code. Coefficients: minimax polynomials (Remez exchange, 60 digits).

#include <cstdint>

#include "kernels/common/hostdevice.h"
#include "kernels/common/numeric.h"

namespace paddle_ops {

// exp(x) for x <= 0, -Inf and NaN included; subnormal results are rounded once.
//
// x = n ln2 + r, |r| <= ln2 / 2; exp(x) = 2^n (1 + r + r^2 q(r)). Adding 1.5 * 2^(mantissa bits)
// rounds to an integer and leaves that integer in the low bits. n is raised by 64 until the last
// multiplication so that 2^n is a normal number even where the result is not.
PO_HOSTDEVICE float exp_nonpositive(float x) {
  const float shifter = 12582912.0f;
  x = x < -104.0f ? -104.0f : x;  // exp(-104) rounds to 0; NaN passes
  const float shifted = x * 1.44269504f + shifter;
  const float n = shifted - shifter;
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  float q = 0.00139413215f;
  q = q * r + 0.00836329442f;
  q = q * r + 0.0416663736f;
  q = q * r + 0.166665763f;
  q = q * r + 0.5f;
  const float mantissa = 1.0f + (r + (r * r) * q);
  const float power = bit_cast<float>((bit_cast<uint32_t>(shifted) + (127u + 64u)) << 23);
  return (mantissa * power) * 5.4210108624275222e-20f;  // 2^-64
}

PO_HOSTDEVICE double exp_nonpositive(double x) {
  const double shifter = 6755399441055744.0;
  x = x < -746.0 ? -746.0 : x;
  const double shifted = x * 1.4426950408889634 + shifter;
  const double n = shifted - shifter;
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double q = 2.092176222230822156e-9;
  q = q * r + 2.5105419830290370176e-8;
  q = q * r + 2.755725240460309611e-7;
  q = q * r + 2.7557254911700790899e-6;
  q = q * r + 2.4801587347860987159e-5;
  q = q * r + 1.9841269875206827614e-4;
  q = q * r + 1.3888888888874181663e-3;
  q = q * r + 8.3333333333260242632e-3;
  q = q * r + 4.1666666666666684091e-2;
  q = q * r + 1.6666666666666671074e-1;
  q = q * r + 0.5;
  const double mantissa = 1.0 + (r + (r * r) * q);
  const double power = bit_cast<double>((bit_cast<uint64_t>(shifted) + (1023u + 64u)) << 52);
  return (mantissa * power) * 5.4210108624275222e-20;
}

// P(z) with log((1 + s) / (1 - s)) = 2 s + s z P(z), z = s^2 <= 0.04
PO_HOSTDEVICE float log_ratio_polynomial(float z) {
  float p = 0.237547800f;
  p = p * z + 0.285323381f;
  p = p * z + 0.400003165f;
  return p * z + 0.666666687f;
}

PO_HOSTDEVICE double log_ratio_polynomial(double z) {
  double p = 0.13611335591963503869;
  p = p * z + 0.13209384904964869957;
  p = p * z + 0.15388885619568114745;
  p = p * z + 0.18181737139713207121;
  p = p * z + 0.22222223055173001933;
  p = p * z + 0.28571428567230410401;
  p = p * z + 0.40000000000008054927;
  return p * z + 0.66666666666666664132;
}

// log1p(e) for 0 <= e <= 1, NaN included.
//
// log1p(e) = k ln2 + log1p(f) with k = 0, f = e up to 1/2 and k = 1, f = (e - 1) / 2 above it. Then
// s = f / (2 + f) and log1p(f) = f - (f^2/2 - s (f^2/2 + s^2 P(s^2))): f is exact and leads, so
// what is rounded is small. ln2 is split so that its first part adds without error.
template <typename acc_t>
PO_HOSTDEVICE acc_t log1p_unit(acc_t e) {
  const bool upper = e > acc_t(0.5);
  const acc_t f = upper ? acc_t(0.5) * (e - acc_t(1)) : e;
  const bool wide = sizeof(acc_t) == sizeof(double);
  const acc_t ln2_high = wide ? acc_t(6.93147180369123816490e-01) : acc_t(0.693359375);
  const acc_t ln2_low = wide ? acc_t(1.90821492927058770002e-10) : acc_t(-2.12194440e-4);
  const acc_t high = upper ? ln2_high : acc_t(0);
  const acc_t low = upper ? ln2_low : acc_t(0);
  const acc_t s = f / (acc_t(2) + f);
  const acc_t z = s * s;
  const acc_t half_square = acc_t(0.5) * f * f;
  const acc_t tail = s * (half_square + z * log_ratio_polynomial(z)) + low;
  return high - ((half_square - tail) - f);
}

}  // namespace paddle_ops

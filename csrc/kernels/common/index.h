#pragma once
// 32-bit indices are faster where they suffice. This is the one place that decides.

#include <cstdint>

#include "kernels/common/hostdevice.h"

namespace paddle_ops {

// True when `elements` elements can all be counted and addressed with int32: up to 2^31 - 1.
PO_HOSTDEVICE bool fits_int32(int64_t elements) { return elements <= INT64_C(0x7fffffff); }

PO_HOSTDEVICE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
PO_HOSTDEVICE int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace paddle_ops

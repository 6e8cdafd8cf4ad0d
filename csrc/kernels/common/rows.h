#pragma once
// Rows of any element type, read into and written from the type that sums are formed in. Erasing
// the element type here, at the edge, is what keeps the loops to one instance per accumulation
// type.

#include <algorithm>
#include <cstdint>

#include "kernels/common/numeric.h"
#include "kernels/common/target.h"

namespace paddle_ops {
namespace PO_TARGET {

PO_HOSTDEVICE void set_element(float* to, float v) { *to = v; }
PO_HOSTDEVICE void set_element(double* to, double v) { *to = v; }
PO_HOSTDEVICE void set_element(Float16* to, float v) { *to = to_float16(v); }
PO_HOSTDEVICE void set_element(BFloat16* to, float v) { *to = to_bfloat16(v); }

template <int kCount, typename To, typename From>
PO_HOSTDEVICE void copy_some(To* __restrict to, const From* __restrict from) {
  for (int i = 0; i < kCount; ++i) set_element(to + i, element(from[i]));
}

// Whole vectors, the last of which overlaps the one before: rows are often short.
template <typename To, typename From>
PO_HOSTDEVICE void copy_row(To* to, const From* from, int64_t count) {
  constexpr int kLanes = PO_VECTOR_BYTES / static_cast<int>(std::max(sizeof(To), sizeof(From)));
  if (count < kLanes) {
    for (int64_t i = 0; i < count; ++i) copy_some<1>(to + i, from + i);
    return;
  }
  for (int64_t i = 0; i + kLanes < count; i += kLanes) copy_some<kLanes>(to + i, from + i);
  copy_some<kLanes>(to + count - kLanes, from + count - kLanes);
}

// A stack of rows: where the next one starts, in elements.
struct RowSteps {
  int64_t to, from;
};

template <typename To, typename From>
void copy_rows(To* to, const From* from, int64_t count, int64_t rows, RowSteps steps) {
  for (int64_t r = 0; r < rows; ++r) copy_row(to + r * steps.to, from + r * steps.from, count);
}

// dst[r * steps.to + i] = src[start + r * steps.from + i] for r < rows, i < count
template <typename acc_t>
void load_rows(acc_t* dst, ConstData src, int64_t start, int64_t count, int64_t rows,
               RowSteps steps) {
  switch (src.dtype) {
    case DType::kFloat32:
      return copy_rows(dst, static_cast<const float*>(src.data) + start, count, rows, steps);
    case DType::kFloat64:
      return copy_rows(dst, static_cast<const double*>(src.data) + start, count, rows, steps);
    case DType::kFloat16:
      return copy_rows(dst, static_cast<const Float16*>(src.data) + start, count, rows, steps);
    case DType::kBFloat16:
      return copy_rows(dst, static_cast<const BFloat16*>(src.data) + start, count, rows, steps);
    case DType::kBool:
    case DType::kUInt8:
      return copy_rows(dst, static_cast<const uint8_t*>(src.data) + start, count, rows, steps);
    case DType::kInt8:
      return copy_rows(dst, static_cast<const int8_t*>(src.data) + start, count, rows, steps);
    case DType::kInt16:
      return copy_rows(dst, static_cast<const int16_t*>(src.data) + start, count, rows, steps);
    case DType::kInt32:
      return copy_rows(dst, static_cast<const int32_t*>(src.data) + start, count, rows, steps);
    case DType::kInt64:
      return copy_rows(dst, static_cast<const int64_t*>(src.data) + start, count, rows, steps);
  }
}

// dst[i] = src[start + i] for i < count
template <typename acc_t>
void load_row(acc_t* dst, ConstData src, int64_t start, int64_t count) {
  load_rows(dst, src, start, count, 1, {});
}

// dst[start + r * steps.to + i] = src[r * steps.from + i] for r < rows, i < count, rounded once;
// dst is one of the four floating types.
template <typename acc_t>
void store_rows(MutableData dst, int64_t start, const acc_t* src, int64_t count, int64_t rows,
                RowSteps steps) {
  switch (dst.dtype) {
    case DType::kFloat64:
      return copy_rows(static_cast<double*>(dst.data) + start, src, count, rows, steps);
    case DType::kFloat16:
      return copy_rows(static_cast<Float16*>(dst.data) + start, src, count, rows, steps);
    case DType::kBFloat16:
      return copy_rows(static_cast<BFloat16*>(dst.data) + start, src, count, rows, steps);
    default:
      return copy_rows(static_cast<float*>(dst.data) + start, src, count, rows, steps);
  }
}

// dst[start + i] = src[i] for i < count, rounded once
template <typename acc_t>
void store_row(MutableData dst, int64_t start, const acc_t* src, int64_t count) {
  store_rows(dst, start, src, count, 1, {});
}

}  // namespace PO_TARGET
}  // namespace paddle_ops

#pragma once
// Rows of any element type, read into and written from the type that sums are formed in. Erasing
// the element type here, at the edge, is what keeps the loops to one instance per accumulation
// type.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/common/numeric.h"
#include "kernels/common/target.h"

namespace paddle_ops {
namespace PO_TARGET {

template <typename T, typename acc_t, int kCount>
PO_HOSTDEVICE void load_some(acc_t* __restrict dst, const T* __restrict src) {
  for (int i = 0; i < kCount; ++i) dst[i] = static_cast<acc_t>(element(src[i]));
}

// Whole vectors, the last of which overlaps the one before: rows are often short.
template <typename T, typename acc_t>
PO_HOSTDEVICE void load_row_as(acc_t* dst, const T* src, int64_t count) {
  constexpr int kLanes = PO_VECTOR_BYTES / static_cast<int>(sizeof(acc_t));
  if (count < kLanes) {
    for (int64_t i = 0; i < count; ++i) load_some<T, acc_t, 1>(dst + i, src + i);
    return;
  }
  for (int64_t i = 0; i + kLanes < count; i += kLanes) {
    load_some<T, acc_t, kLanes>(dst + i, src + i);
  }
  load_some<T, acc_t, kLanes>(dst + count - kLanes, src + count - kLanes);
}

// A stack of rows: where the next one starts, in elements.
struct RowSteps {
  int64_t to, from;
};

template <typename T, typename acc_t>
void load_rows_as(acc_t* dst, const void* src, int64_t start, int64_t count, int64_t rows,
                  RowSteps steps) {
  const T* row = static_cast<const T*>(src) + start;
  for (int64_t r = 0; r < rows; ++r) load_row_as(dst + r * steps.to, row + r * steps.from, count);
}

// dst[r * steps.to + i] = src[start + r * steps.from + i] for r < rows, i < count
template <typename acc_t>
void load_rows(acc_t* dst, ConstData src, int64_t start, int64_t count, int64_t rows,
               RowSteps steps) {
  switch (src.dtype) {
    case DType::kFloat32:
      return load_rows_as<float>(dst, src.data, start, count, rows, steps);
    case DType::kFloat64:
      return load_rows_as<double>(dst, src.data, start, count, rows, steps);
    case DType::kFloat16:
      return load_rows_as<Float16>(dst, src.data, start, count, rows, steps);
    case DType::kBFloat16:
      return load_rows_as<BFloat16>(dst, src.data, start, count, rows, steps);
    case DType::kBool:
    case DType::kUInt8:
      return load_rows_as<uint8_t>(dst, src.data, start, count, rows, steps);
    case DType::kInt8:
      return load_rows_as<int8_t>(dst, src.data, start, count, rows, steps);
    case DType::kInt16:
      return load_rows_as<int16_t>(dst, src.data, start, count, rows, steps);
    case DType::kInt32:
      return load_rows_as<int32_t>(dst, src.data, start, count, rows, steps);
    case DType::kInt64:
      return load_rows_as<int64_t>(dst, src.data, start, count, rows, steps);
  }
}

// dst[i] = src[start + i] for i < count
template <typename acc_t>
void load_row(acc_t* dst, ConstData src, int64_t start, int64_t count) {
  load_rows(dst, src, start, count, 1, {});
}

PO_HOSTDEVICE void set_element(float* to, float v) { *to = v; }
PO_HOSTDEVICE void set_element(double* to, double v) { *to = v; }
PO_HOSTDEVICE void set_element(Float16* to, float v) { *to = to_float16(v); }
PO_HOSTDEVICE void set_element(BFloat16* to, float v) { *to = to_bfloat16(v); }

template <typename T, typename acc_t, int kCount>
PO_HOSTDEVICE void store_some(T* __restrict dst, const acc_t* __restrict src) {
  using Via = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (int i = 0; i < kCount; ++i) set_element(dst + i, static_cast<Via>(src[i]));
}

template <typename T, typename acc_t>
PO_HOSTDEVICE void store_row_as(T* dst, const acc_t* src, int64_t count) {
  constexpr int kLanes = PO_VECTOR_BYTES / static_cast<int>(sizeof(acc_t));
  if (count < kLanes) {
    for (int64_t i = 0; i < count; ++i) store_some<T, acc_t, 1>(dst + i, src + i);
    return;
  }
  for (int64_t i = 0; i + kLanes < count; i += kLanes) {
    store_some<T, acc_t, kLanes>(dst + i, src + i);
  }
  store_some<T, acc_t, kLanes>(dst + count - kLanes, src + count - kLanes);
}

template <typename T, typename acc_t>
void store_rows_as(void* dst, int64_t start, const acc_t* src, int64_t count, int64_t rows,
                   RowSteps steps) {
  T* row = static_cast<T*>(dst) + start;
  for (int64_t r = 0; r < rows; ++r) store_row_as(row + r * steps.to, src + r * steps.from, count);
}

// dst[start + r * steps.to + i] = src[r * steps.from + i] for r < rows, i < count, rounded once;
// dst is one of the four floating types.
template <typename acc_t>
void store_rows(MutableData dst, int64_t start, const acc_t* src, int64_t count, int64_t rows,
                RowSteps steps) {
  switch (dst.dtype) {
    case DType::kFloat64:
      return store_rows_as<double>(dst.data, start, src, count, rows, steps);
    case DType::kFloat16:
      return store_rows_as<Float16>(dst.data, start, src, count, rows, steps);
    case DType::kBFloat16:
      return store_rows_as<BFloat16>(dst.data, start, src, count, rows, steps);
    default:
      return store_rows_as<float>(dst.data, start, src, count, rows, steps);
  }
}

// dst[start + i] = src[i] for i < count, rounded once
template <typename acc_t>
void store_row(MutableData dst, int64_t start, const acc_t* src, int64_t count) {
  store_rows(dst, start, src, count, 1, {});
}

}  // namespace PO_TARGET
}  // namespace paddle_ops

#pragma once
// Rows of any element type, read into and written from the type that sums are formed in. Erasing
// the element type here, at the edge, is what keeps the loops to one instance per accumulation
// type.

#include <cstdint>
#include <cstring>

#include "kernels/common/numeric.h"
#include "kernels/common/target.h"

namespace paddle_ops {

// A tensor's memory and element type; null when the tensor is absent.
struct ConstData {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
};
struct MutableData {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
};

namespace PO_TARGET {

template <typename T>
PO_HOSTDEVICE T element(T v) {
  return v;
}
PO_HOSTDEVICE float element(Float16 v) { return to_float(v); }
PO_HOSTDEVICE float element(BFloat16 v) { return to_float(v); }

template <typename T, typename acc_t>
void load_row_as(acc_t* dst, const void* src, int64_t start, int64_t count) {
  const T* row = static_cast<const T*>(src) + start;
  for (int64_t i = 0; i < count; ++i) dst[i] = static_cast<acc_t>(element(row[i]));
}

// dst[i] = src[start + i] for i < count
template <typename acc_t>
void load_row(acc_t* dst, ConstData src, int64_t start, int64_t count) {
  switch (src.dtype) {
    case DType::kFloat32:
      return load_row_as<float>(dst, src.data, start, count);
    case DType::kFloat64:
      return load_row_as<double>(dst, src.data, start, count);
    case DType::kFloat16:
      return load_row_as<Float16>(dst, src.data, start, count);
    case DType::kBFloat16:
      return load_row_as<BFloat16>(dst, src.data, start, count);
    case DType::kBool:
    case DType::kUInt8:
      return load_row_as<uint8_t>(dst, src.data, start, count);
    case DType::kInt8:
      return load_row_as<int8_t>(dst, src.data, start, count);
    case DType::kInt16:
      return load_row_as<int16_t>(dst, src.data, start, count);
    case DType::kInt32:
      return load_row_as<int32_t>(dst, src.data, start, count);
    case DType::kInt64:
      return load_row_as<int64_t>(dst, src.data, start, count);
  }
}

// dst[start + i] = src[i] for i < count, rounded once; dst is one of the four floating types.
template <typename acc_t>
void store_row(MutableData dst, int64_t start, const acc_t* src, int64_t count) {
  switch (dst.dtype) {
    case DType::kFloat64: {
      double* row = static_cast<double*>(dst.data) + start;
      for (int64_t i = 0; i < count; ++i) row[i] = static_cast<double>(src[i]);
      return;
    }
    case DType::kFloat16: {
      Float16* row = static_cast<Float16*>(dst.data) + start;
      for (int64_t i = 0; i < count; ++i) row[i] = to_float16(static_cast<float>(src[i]));
      return;
    }
    case DType::kBFloat16: {
      BFloat16* row = static_cast<BFloat16*>(dst.data) + start;
      for (int64_t i = 0; i < count; ++i) row[i] = to_bfloat16(static_cast<float>(src[i]));
      return;
    }
    default: {
      float* row = static_cast<float*>(dst.data) + start;
      for (int64_t i = 0; i < count; ++i) row[i] = static_cast<float>(src[i]);
      return;
    }
  }
}

}  // namespace PO_TARGET
}  // namespace paddle_ops

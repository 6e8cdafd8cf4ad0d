#pragma once
// What every binding needs: tensors as the kernels see them, one wording for a caller's mistake,
// and no exception that Paddle does not know. Kernels never throw; bindings do, through this
// header.

// Python.h and everything behind it is not needed here, and halves the compile time by its absence.
#ifndef PADDLE_NO_PYTHON
#define PADDLE_NO_PYTHON
#endif
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/common/numeric.h"
#include "paddle/extension.h"
// What this header has for CUDA is not needed here, and needs the headers of all its libraries.
#pragma push_macro("PADDLE_WITH_CUDA")
#undef PADDLE_WITH_CUDA
#include "paddle/phi/core/enforce.h"
#pragma pop_macro("PADDLE_WITH_CUDA")
#include "targets/workspace.h"

namespace paddle_ops {

using paddle::Tensor;
using Shape = std::vector<int64_t>;
using DataTypes = std::vector<paddle::DataType>;

// Raises ValueError "op: argument: expected ..., got ..." in Python.
[[noreturn]] inline void fail(const char* op, const char* argument, const std::string& expected,
                              const std::string& got) {
  PADDLE_THROW(
      phi::errors::InvalidArgument("%s: %s: expected %s, got %s", op, argument, expected, got));
}

// Text of anything that can be streamed: to_text("shape ", 3).
template <typename... Args>
std::string to_text(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

inline std::string to_text(const Shape& shape) {
  std::ostringstream out;
  out << '[';
  for (size_t i = 0; i < shape.size(); ++i) out << (i == 0 ? "" : ", ") << shape[i];
  out << ']';
  return out.str();
}

// Runs a kernel function's body. Paddle aborts the process on exceptions other than its own, and
// its own derive from std::exception directly, so catching the standard families lets them through.
template <typename Body>
auto guarded(const char* op, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    PD_THROW(op, ": out of memory");
  } catch (const std::logic_error& error) {
    PD_THROW(op, ": ", error.what());
  } catch (const std::runtime_error& error) {
    PD_THROW(op, ": ", error.what());
  }
}

// Where this build has kernels for.
inline bool has_kernels(const Tensor& tensor) {
#ifdef PADDLE_OPS_CUDA
  if (tensor.is_gpu()) return true;
#endif
  return tensor.is_cpu();
}

// A dense tensor with memory where x has its own. None arrives here as an undefined tensor.
inline void check_dense(const char* op, const char* argument, const Tensor& tensor,
                        const Tensor& x) {
  if (!tensor.defined() || !tensor.is_dense_tensor()) fail(op, argument, "a dense tensor", "none");
  if (tensor.numel() != 0 && !tensor.initialized()) {
    fail(op, argument, "a tensor with data", "one without");
  }
  if (!tensor.initialized()) return;
  const auto place_of = [](const Tensor& t) { return t.place().DebugString(); };
  if (!has_kernels(tensor)) {
    fail(op, argument, "a tensor on a device that paddle_ops was built for",
         "one on " + place_of(tensor));
  }
  if (x.initialized() && tensor.place() != x.place()) {
    fail(op, argument, "a tensor on " + place_of(x) + ", where x is", "one on " + place_of(tensor));
  }
}

inline void check_shape(const char* op, const char* argument, const Tensor& tensor,
                        const Shape& expected) {
  if (tensor.shape() != expected) {
    fail(op, argument, "shape " + to_text(expected), to_text(tensor.shape()));
  }
}

inline bool is_floating(paddle::DataType dtype) {
  return dtype == paddle::DataType::FLOAT32 || dtype == paddle::DataType::FLOAT64 ||
         dtype == paddle::DataType::FLOAT16 || dtype == paddle::DataType::BFLOAT16;
}

inline void check_floating(const char* op, const char* argument, const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) {
    fail(op, argument, "float32, float64, float16 or bfloat16", to_text(tensor.dtype()));
  }
}

inline void check_dtype(const char* op, const char* argument, const Tensor& tensor,
                        paddle::DataType expected) {
  if (tensor.dtype() != expected) {
    fail(op, argument, to_text(expected), to_text(tensor.dtype()));
  }
}

inline DType element_type(const char* op, const char* argument, const Tensor& tensor) {
  switch (tensor.dtype()) {
    case paddle::DataType::FLOAT32:
      return DType::kFloat32;
    case paddle::DataType::FLOAT64:
      return DType::kFloat64;
    case paddle::DataType::FLOAT16:
      return DType::kFloat16;
    case paddle::DataType::BFLOAT16:
      return DType::kBFloat16;
    case paddle::DataType::BOOL:
      return DType::kBool;
    case paddle::DataType::UINT8:
      return DType::kUInt8;
    case paddle::DataType::INT8:
      return DType::kInt8;
    case paddle::DataType::INT16:
      return DType::kInt16;
    case paddle::DataType::INT32:
      return DType::kInt32;
    case paddle::DataType::INT64:
      return DType::kInt64;
    default:
      fail(op, argument, "a floating, integer or bool tensor", to_text(tensor.dtype()));
  }
}

inline ConstData const_data(const char* op, const char* argument, const Tensor& tensor) {
  return ConstData{tensor.data(), element_type(op, argument, tensor)};
}

inline MutableData mutable_data(const char* op, const char* argument, Tensor& tensor) {
  return MutableData{tensor.data(), element_type(op, argument, tensor)};
}

// An output of this shape. An empty one points somewhere all the same: Paddle 2.6 takes a tensor
// without memory for one that the kernel forgot.
inline Tensor new_tensor(const Shape& shape, paddle::DataType dtype, const paddle::Place& place) {
  static char nothing[64];
  for (const int64_t size : shape) {
    if (size == 0) return paddle::from_blob(nothing, shape, dtype, phi::DataLayout::NCHW, place);
  }
  Tensor tensor = paddle::empty(shape, dtype, place);
  if (tensor.is_cpu()) {
    prefer_large_pages(tensor.data(), tensor.numel() * static_cast<int64_t>(phi::SizeOf(dtype)));
  }
  return tensor;
}

// Paddle insists on an initialised tensor for every gradient, wanted or not; this is the cheapest.
inline Tensor unwanted_gradient(const Tensor& like) {
  return paddle::empty({1}, like.dtype(), like.place());
}

}  // namespace paddle_ops

#pragma once
// Memory from Python as the kernels see it: used in place, never copied, owned by the caller.
//
// An argument is a C-contiguous NumPy array, or a raw pointer as (address, dtype name, number of
// elements), whose truth is the caller's business. NumPy has no bfloat16: uint16 holds its bits.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

#include "kernels/common/rows.h"

namespace paddle_ops {

namespace py = pybind11;

struct View {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t count = 0;
  bool writeable = true;

  bool floating() const {
    return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
           dtype == DType::kBFloat16;
  }
};

inline DType dtype_of_name(const std::string& argument, const std::string& name) {
  constexpr struct {
    const char* name;
    DType dtype;
  } kNames[] = {
      {"float32", DType::kFloat32},   {"float64", DType::kFloat64}, {"float16", DType::kFloat16},
      {"bfloat16", DType::kBFloat16}, {"uint16", DType::kBFloat16}, {"bool", DType::kBool},
      {"uint8", DType::kUInt8},       {"int8", DType::kInt8},       {"int16", DType::kInt16},
      {"int32", DType::kInt32},       {"int64", DType::kInt64},
  };
  for (const auto& known : kNames) {
    if (name == known.name) return known.dtype;
  }
  throw py::type_error(argument + ": unsupported dtype " + name);
}

// The memory of one argument; None gives a null pointer.
inline View view(const std::string& argument, const py::object& value) {
  if (value.is_none()) return {};
  if (py::isinstance<py::tuple>(value)) {
    const auto [address, name, count] = value.cast<std::tuple<uintptr_t, std::string, int64_t>>();
    return {reinterpret_cast<void*>(address), dtype_of_name(argument, name), count, true};
  }
  if (!py::isinstance<py::array>(value)) {
    throw py::type_error(argument + ": expected a NumPy array, a pointer tuple or None");
  }
  const auto array = py::reinterpret_borrow<py::array>(value);
  if (!(array.flags() & py::array::c_style)) {
    throw py::value_error(argument + ": expected a C-contiguous array");
  }
  const DType dtype = dtype_of_name(argument, py::str(array.dtype()));
  return {const_cast<void*>(array.data()), dtype, array.size(), array.writeable()};
}

// An input of `count` elements; None is an absent one.
inline ConstData input(const std::string& argument, const py::object& value, int64_t count) {
  const View v = view(argument, value);
  if (!value.is_none() && v.count != count) {
    throw py::value_error(argument + ": expected " + std::to_string(count) + " elements, got " +
                          std::to_string(v.count));
  }
  return {v.data, v.dtype};
}

// A result of `count` elements, written in place; None is one that is not wanted.
inline MutableData output(const std::string& argument, const py::object& value, int64_t count) {
  const ConstData data = input(argument, value, count);
  const View v = view(argument, value);
  if (!v.writeable) throw py::value_error(argument + ": is read-only");
  if (!v.floating()) throw py::type_error(argument + ": expected a floating type");
  return {v.data, data.dtype};
}

}  // namespace paddle_ops

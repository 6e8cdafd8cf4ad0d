#pragma once
// Memory of callers of the pybind11 module: NumPy arrays, or raw pointers as (address, dtype,
// shape). Never copied, so that arrays larger than memory that are only reserved, not touched, work
// too.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/common/numeric.h"

namespace paddle_ops {

namespace py = pybind11;

struct Array {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;

  bool absent() const { return data == nullptr; }
  ConstData input() const { return {data, dtype}; }
  MutableData output() const { return {data, dtype}; }
};

// NumPy has no bfloat16; its bits travel as uint16, which no operator takes otherwise.
inline DType dtype_of(const std::string& argument, const std::string& name) {
  if (name == "float32") return DType::kFloat32;
  if (name == "float64") return DType::kFloat64;
  if (name == "float16") return DType::kFloat16;
  if (name == "bfloat16" || name == "uint16") return DType::kBFloat16;
  if (name == "bool") return DType::kBool;
  if (name == "uint8") return DType::kUInt8;
  if (name == "int8") return DType::kInt8;
  if (name == "int16") return DType::kInt16;
  if (name == "int32") return DType::kInt32;
  if (name == "int64") return DType::kInt64;
  throw py::type_error(argument + ": no kernel for dtype " + name);
}

// None is an absent array.
inline Array to_array(const std::string& argument, const py::object& value, bool writeable) {
  Array array;
  if (value.is_none()) return array;
  if (py::isinstance<py::tuple>(value)) {
    const auto parts = value.cast<std::tuple<uintptr_t, std::string, std::vector<int64_t>>>();
    array.data = reinterpret_cast<void*>(std::get<0>(parts));
    array.dtype = dtype_of(argument, std::get<1>(parts));
    array.shape = std::get<2>(parts);
    return array;
  }
  if (!py::isinstance<py::array>(value)) {
    throw py::type_error(argument + ": expected a NumPy array, (address, dtype, shape) or None");
  }
  const py::array numpy = py::reinterpret_borrow<py::array>(value);
  if (!(numpy.flags() & py::array::c_style)) {
    throw py::value_error(argument + ": expected a C-contiguous array");
  }
  if (writeable && !numpy.writeable()) {
    throw py::value_error(argument + ": expected a writeable array");
  }
  array.data = const_cast<void*>(numpy.data());
  array.dtype = dtype_of(argument, py::str(numpy.dtype().attr("name")));
  array.shape.assign(numpy.shape(), numpy.shape() + numpy.ndim());
  return array;
}

inline void check_shape(const std::string& argument, const Array& array,
                        const std::vector<int64_t>& expected) {
  if (array.absent() || array.shape == expected) return;
  const auto text = [](const std::vector<int64_t>& shape) {
    return std::string(py::str(py::cast(shape)));
  };
  throw py::value_error(argument + ": expected shape " + text(expected) + ", got " +
                        text(array.shape));
}

}  // namespace paddle_ops

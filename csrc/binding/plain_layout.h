#pragma once
// Tensors in the order of their dimensions, whatever layout Paddle hands them over in.

#include <memory>

#include "binding/check.h"
#include "paddle/phi/core/dense_tensor.h"

namespace phi::funcs {

// Paddle's own conversion, declared here since its header wants oneDNN's, which are not shipped.
// Weak, for a Paddle that was built without oneDNN.
__attribute__((weak)) void TransDataLayoutFromOneDNN(DataLayout in_layout, DataLayout out_layout,
                                                     const DenseTensor& in, DenseTensor* out,
                                                     Place place, bool always_copy);

}  // namespace phi::funcs

namespace paddle_ops {

// Paddle 3 runs saved models with oneDNN's kernels on the CPU, and does not undo their blocked
// layouts for custom operators.
inline Tensor in_plain_layout(const char* op, const Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != phi::DataLayout::ONEDNN) return tensor;
  const auto blocked = std::dynamic_pointer_cast<phi::DenseTensor>(tensor.impl());
  if (blocked == nullptr || phi::funcs::TransDataLayoutFromOneDNN == nullptr) {
    fail(op, "layout", "a layout in the order of the dimensions", "oneDNN's");
  }
  auto plain = std::make_shared<phi::DenseTensor>();
  phi::funcs::TransDataLayoutFromOneDNN(phi::DataLayout::ONEDNN, phi::DataLayout::NCHW, *blocked,
                                        plain.get(), blocked->place(), false);
  return Tensor(plain);
}

}  // namespace paddle_ops

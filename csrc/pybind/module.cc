// Module _kernels: the kernels on NumPy arrays, without Paddle. It lives in the same library as the
// Paddle operators; one function per operator adds its part.

#include <pybind11/pybind11.h>

namespace paddle_ops {
void bind_sigmoid_cross_entropy_with_logits(pybind11::module_& m);
}  // namespace paddle_ops

PYBIND11_MODULE(_kernels, m) {
  m.doc() = "The operators' kernels on NumPy arrays, in place.";
  paddle_ops::bind_sigmoid_cross_entropy_with_logits(m);
}

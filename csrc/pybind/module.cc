// Module _kernels: the kernels on NumPy arrays and raw pointers, without Paddle. It lives in the
// same library as the Paddle operators.

#include <pybind11/pybind11.h>

namespace paddle_ops {
void bind_deform_conv2d(pybind11::module_& m);
void bind_sigmoid_cross_entropy_with_logits(pybind11::module_& m);
}  // namespace paddle_ops

PYBIND11_MODULE(_kernels, m) {
  paddle_ops::bind_deform_conv2d(m);
  paddle_ops::bind_sigmoid_cross_entropy_with_logits(m);
}

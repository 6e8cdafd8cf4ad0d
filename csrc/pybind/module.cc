// Module _kernels: the kernels on NumPy arrays and raw pointers, without Paddle. It lives in the
// same library as the Paddle operators.

#include <pybind11/pybind11.h>

#include "targets/select.h"

namespace paddle_ops {
void bind_deform_conv2d(pybind11::module_& m);
void bind_sigmoid_cross_entropy_with_logits(pybind11::module_& m);
}  // namespace paddle_ops

namespace {

const char* instruction_set() {
  switch (paddle_ops::select_target()) {
    case paddle_ops::Target::kAvx512:
      return "avx512";
    case paddle_ops::Target::kAvx2:
      return "avx2";
    default:
      return "baseline";
  }
}

}  // namespace

PYBIND11_MODULE(_kernels, m) {
  m.def("instruction_set", instruction_set, "Whose loops the next call uses.");
  paddle_ops::bind_deform_conv2d(m);
  paddle_ops::bind_sigmoid_cross_entropy_with_logits(m);
}

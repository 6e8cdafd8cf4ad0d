// The module _kernels with one operator: BIND is the name of the function that adds it.

#include <pybind11/pybind11.h>

namespace paddle_ops {
void BIND(pybind11::module_& m);
}  // namespace paddle_ops

PYBIND11_MODULE(_kernels, m) { paddle_ops::BIND(m); }

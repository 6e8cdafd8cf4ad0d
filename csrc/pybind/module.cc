#include <pybind11/pybind11.h>
namespace paddle_ops {
void bind_deform_conv2d(pybind11::module_&);
}
PYBIND11_MODULE(_kernels, m) { paddle_ops::bind_deform_conv2d(m); }

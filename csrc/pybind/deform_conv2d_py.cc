// deform_conv2d's kernels on NumPy arrays or raw pointers. Shapes are checked, values are not.

#include "pybind/array.h"
#include "targets/deform_conv2d_select.h"
#include "targets/thread_budget.h"
#include "targets/workspace.h"

namespace paddle_ops {
namespace {

using Sizes = std::vector<int64_t>;

struct Call {
  Array x, offset, weight, bias, mask;
  DeformConv2dParams params;
};

// The arguments that both directions share; [oh, ow] comes from offset.
Call make_call(const py::object& x, const py::object& offset, const py::object& weight,
               const py::object& bias, const py::object& mask, const Sizes& strides,
               const Sizes& paddings, const Sizes& dilations, int64_t deformable_groups,
               int64_t groups, const std::string& boundary_grad, int num_threads, int index_bits) {
  Call call{to_array("x", x, false),           to_array("offset", offset, false),
            to_array("weight", weight, false), to_array("bias", bias, false),
            to_array("mask", mask, false),     {}};
  const Array* const arrays[] = {&call.x, &call.offset, &call.weight};
  for (const Array* array : arrays) {
    if (array->shape.size() != 4) throw py::value_error("x, offset, weight: expected 4 dimensions");
  }
  const Sizes &xs = call.x.shape, &ws = call.weight.shape, &offsets = call.offset.shape;
  DeformConv2dShape& s = call.params.shape;
  s = {xs[0],
       xs[1],
       xs[2],
       xs[3],
       ws[0],
       ws[2],
       ws[3],
       offsets[2],
       offsets[3],
       strides.at(0),
       strides.at(1),
       paddings.at(0),
       paddings.at(2),
       dilations.at(0),
       dilations.at(1),
       groups,
       deformable_groups};
  if (groups < 1 || deformable_groups < 1 || s.c % groups || s.o % groups ||
      s.c % deformable_groups) {
    throw py::value_error("groups, deformable_groups: expected divisors of the channels");
  }
  const int64_t taps = deformable_groups * s.taps();
  check_shape("weight", call.weight, {s.o, s.group_in(), s.kh, s.kw});
  check_shape("offset", call.offset, {s.n, 2 * taps, s.oh, s.ow});
  check_shape("mask", call.mask, {s.n, taps, s.oh, s.ow});
  check_shape("bias", call.bias, {s.o});
  call.params.boundary_grad =
      boundary_grad == "torchvision" ? BoundaryGrad::kTorchvision : BoundaryGrad::kPaddle;
  call.params.x = call.x.input();
  call.params.offset = call.offset.input();
  call.params.weight = call.weight.input();
  call.params.bias = call.bias.input();
  call.params.mask = call.mask.input();
  call.params.num_threads = num_threads;
  call.params.index_bits = index_bits;
  return call;
}

void run(Direction direction, DeformConv2dParams* params) {
  const ThreadBudget budget(params->num_threads);
  params->num_threads = budget.threads();
  const DeformConv2dKernel kernel = deform_conv2d_kernel(direction, *params);
  const py::gil_scoped_release release;
  const Workspace workspace(kernel.workspace_bytes(*params));
  kernel.run(*params, workspace.get());
}

void forward(const py::object& out, const py::object& x, const py::object& offset,
             const py::object& weight, const py::object& bias, const py::object& mask,
             const Sizes& strides, const Sizes& paddings, const Sizes& dilations,
             int64_t deformable_groups, int64_t groups, int num_threads, int index_bits,
             int64_t scratch_bytes) {
  Call call = make_call(x, offset, weight, bias, mask, strides, paddings, dilations,
                        deformable_groups, groups, "paddle", num_threads, index_bits);
  const DeformConv2dShape& s = call.params.shape;
  const Array result = to_array("out", out, true);
  check_shape("out", result, {s.n, s.o, s.oh, s.ow});
  call.params.out = result.output();
  call.params.scratch_bytes = scratch_bytes;
  run(Direction::kForward, &call.params);
}

void backward(const py::object& grad_out, const py::object& x, const py::object& offset,
              const py::object& weight, const py::object& mask, const py::object& grad_x,
              const py::object& grad_offset, const py::object& grad_weight,
              const py::object& grad_bias, const py::object& grad_mask, const Sizes& strides,
              const Sizes& paddings, const Sizes& dilations, int64_t deformable_groups,
              int64_t groups, const std::string& boundary_grad, int num_threads, int index_bits,
              int64_t scratch_bytes, bool deterministic) {
  Call call = make_call(x, offset, weight, py::none(), mask, strides, paddings, dilations,
                        deformable_groups, groups, boundary_grad, num_threads, index_bits);
  DeformConv2dParams& p = call.params;
  const auto wanted = [](const char* name, const py::object& value, const Sizes& shape) {
    const Array array = to_array(name, value, true);
    check_shape(name, array, shape);
    return array.output();
  };
  const Array grad = to_array("grad_out", grad_out, false);
  check_shape("grad_out", grad, {p.shape.n, p.shape.o, p.shape.oh, p.shape.ow});
  p.grad_out = grad.input();
  p.scratch_bytes = scratch_bytes;
  p.deterministic = deterministic;
  p.grad_x = wanted("grad_x", grad_x, call.x.shape);
  p.grad_offset = wanted("grad_offset", grad_offset, call.offset.shape);
  p.grad_weight = wanted("grad_weight", grad_weight, call.weight.shape);
  p.grad_bias = wanted("grad_bias", grad_bias, {p.shape.o});
  p.grad_mask = wanted("grad_mask", grad_mask, call.mask.shape);
  run(Direction::kBackward, &p);
}

// Sizes by the names of DeformConv2dShape; those that are not given are 1, paddings 0.
bool shape_fits_int32(const py::kwargs& sizes) {
  const auto size = [&](const char* name, int64_t otherwise) {
    return sizes.contains(name) ? sizes[name].cast<int64_t>() : otherwise;
  };
  return deform_conv2d_fits_int32(
      {size("n", 1), size("c", 1), size("h", 1), size("w", 1), size("o", 1), size("kh", 1),
       size("kw", 1), size("oh", 1), size("ow", 1), size("stride_h", 1), size("stride_w", 1),
       size("pad_top", 0), size("pad_left", 0), size("dilation_h", 1), size("dilation_w", 1),
       size("groups", 1), size("deformable_groups", 1)});
}

int64_t workspace_bytes(bool backward_too, const Sizes& x, const Sizes& weight, int64_t oh,
                        int64_t ow, const Sizes& strides, int64_t deformable_groups, int64_t groups,
                        int num_threads) {
  DeformConv2dParams p;
  p.shape = {x.at(0),
             x.at(1),
             x.at(2),
             x.at(3),
             weight.at(0),
             weight.at(2),
             weight.at(3),
             oh,
             ow,
             strides.at(0),
             strides.at(1),
             0,
             0,
             1,
             1,
             groups,
             deformable_groups};
  p.num_threads = num_threads;
  if (backward_too) {
    char wanted = 0;  // only asked whether it is there
    p.grad_x.data = p.grad_offset.data = p.grad_weight.data = p.grad_mask.data = &wanted;
  }
  const auto direction = backward_too ? Direction::kBackward : Direction::kForward;
  return deform_conv2d_kernel(direction, p).workspace_bytes(p);
}

}  // namespace

void bind_deform_conv2d(py::module_& m) {
  using py::arg;
  m.def("deform_conv2d_forward", &forward, "Writes out; the other arrays are read.", arg("out"),
        arg("x"), arg("offset"), arg("weight"), arg("bias") = py::none(), arg("mask") = py::none(),
        arg("strides") = Sizes{1, 1}, arg("paddings") = Sizes{0, 0, 0, 0},
        arg("dilations") = Sizes{1, 1}, arg("deformable_groups") = 1, arg("groups") = 1,
        arg("num_threads") = 0, arg("index_bits") = 0, arg("scratch_bytes") = 0);
  m.def("deform_conv2d_backward", &backward, "Writes those gradients that are not None.",
        arg("grad_out"), arg("x"), arg("offset"), arg("weight"), arg("mask") = py::none(),
        arg("grad_x") = py::none(), arg("grad_offset") = py::none(),
        arg("grad_weight") = py::none(), arg("grad_bias") = py::none(),
        arg("grad_mask") = py::none(), arg("strides") = Sizes{1, 1},
        arg("paddings") = Sizes{0, 0, 0, 0}, arg("dilations") = Sizes{1, 1},
        arg("deformable_groups") = 1, arg("groups") = 1, arg("boundary_grad") = "paddle",
        arg("num_threads") = 0, arg("index_bits") = 0, arg("scratch_bytes") = 0,
        arg("deterministic") = false);
  m.def("deform_conv2d_fits_int32", &shape_fits_int32, "Whether the 32-bit index path is taken.");
  m.def("deform_conv2d_workspace_bytes", &workspace_bytes, "Scratch memory of one call, fp32.",
        arg("backward"), arg("x"), arg("weight"), arg("oh"), arg("ow"),
        arg("strides") = Sizes{1, 1}, arg("deformable_groups") = 1, arg("groups") = 1,
        arg("num_threads") = 1);
}

}  // namespace paddle_ops

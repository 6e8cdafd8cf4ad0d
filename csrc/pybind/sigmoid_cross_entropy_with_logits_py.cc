// sigmoid_cross_entropy_with_logits on NumPy arrays, and its exp and log1p for tests.

#include "kernels/common/elementary.h"
#include "pybind/array.h"
#include "targets/sigmoid_cross_entropy_with_logits.h"

namespace paddle_ops {
namespace {

struct Options {
  bool normalize;
  int ignore_index;
  std::string form;
  int num_threads;
  int index_bits;
};

PosWeightForm form_of(const std::string& name, bool has_pos_weight) {
  if (name != "log1p" && name != "softplus") {
    throw py::value_error("pos_weight_form: expected 'log1p' or 'softplus', got '" + name + "'");
  }
  if (!has_pos_weight) return PosWeightForm::kNone;
  return name == "softplus" ? PosWeightForm::kSoftplus : PosWeightForm::kLog1p;
}

SigmoidCrossEntropyParams common_params(const py::object& x, const py::object& label,
                                        const py::object& pos_weight, const Options& options) {
  const View logits = view("x", x);
  if (!logits.floating()) throw py::type_error("x: expected a floating type");
  if (x.is_none()) throw py::type_error("x: expected an array");
  if (label.is_none()) throw py::type_error("label: expected an array");
  SigmoidCrossEntropyParams p;
  p.count = logits.count;
  p.x = {logits.data, logits.dtype};
  p.label = input("label", label, p.count);
  p.pos_weight = input("pos_weight", pos_weight, p.count);
  p.form = form_of(options.form, !pos_weight.is_none());
  p.normalize = options.normalize;
  p.ignore_index = options.ignore_index;
  p.num_threads = options.num_threads;
  p.index_bits = options.index_bits;
  if (p.index_bits != 0 && p.index_bits != 32 && p.index_bits != 64) {
    throw py::value_error("index_bits: expected 0, 32 or 64");
  }
  if (p.index_bits == 32 && !fits_int32(p.count)) {
    throw py::value_error("index_bits: 32 bits cannot count " + std::to_string(p.count));
  }
  return p;
}

void run(void (*kernel)(const SigmoidCrossEntropyParams&), const SigmoidCrossEntropyParams& p) {
  py::gil_scoped_release release;
  kernel(p);
}

void forward(const py::object& x, const py::object& label, const py::object& out,
             const py::object& pos_weight, bool normalize, int ignore_index,
             const std::string& pos_weight_form, int num_threads, int index_bits) {
  SigmoidCrossEntropyParams p = common_params(
      x, label, pos_weight, {normalize, ignore_index, pos_weight_form, num_threads, index_bits});
  p.out = output("out", out, p.count);
  run(sigmoid_cross_entropy_kernels().forward, p);
}

void backward(const py::object& x, const py::object& label, const py::object& grad_out,
              const py::object& pos_weight, const py::object& grad_x, const py::object& grad_label,
              const py::object& grad_pos_weight, bool normalize, int ignore_index,
              const std::string& pos_weight_form, int num_threads, int index_bits) {
  SigmoidCrossEntropyParams p = common_params(
      x, label, pos_weight, {normalize, ignore_index, pos_weight_form, num_threads, index_bits});
  if (grad_out.is_none()) throw py::type_error("grad_out: expected an array");
  p.grad_out = input("grad_out", grad_out, p.count);
  p.grad_x = output("grad_x", grad_x, p.count);
  p.grad_label = output("grad_label", grad_label, p.count);
  p.grad_pos_weight = output("grad_pos_weight", grad_pos_weight, p.count);
  run(sigmoid_cross_entropy_kernels().backward, p);
}

// The width of element indices that the kernels choose for a tensor of `count` elements.
int chosen_index_bits(int64_t count) {
  SigmoidCrossEntropyParams p;
  p.count = count;
  return uses_int32(p) ? 32 : 64;
}

template <typename T, typename Function>
void apply(const View& x, const View& out, const Function& function) {
  const T* from = static_cast<const T*>(x.data);
  T* to = static_cast<T*>(out.data);
  for (int64_t i = 0; i < x.count; ++i) to[i] = function(from[i]);
}

// out = function(x) for float32 and float64
template <typename Function>
void elementwise(const py::object& x, const py::object& out, const Function& function) {
  const View from = view("x", x);
  const View to = view("out", out);
  if (from.dtype != to.dtype || from.count != to.count || !to.writeable) {
    throw py::value_error("out: expected a writeable array like x");
  }
  if (from.dtype == DType::kFloat32) return apply<float>(from, to, function);
  if (from.dtype == DType::kFloat64) return apply<double>(from, to, function);
  throw py::type_error("x: expected float32 or float64");
}

}  // namespace

void bind_sigmoid_cross_entropy_with_logits(py::module_& m) {
  m.def("sigmoid_cross_entropy_with_logits", &forward, py::arg("x"), py::arg("label"),
        py::arg("out"), py::arg("pos_weight") = py::none(), py::arg("normalize") = false,
        py::arg("ignore_index") = -100, py::arg("pos_weight_form") = "log1p",
        py::arg("num_threads") = 0, py::arg("index_bits") = 0,
        "Writes the loss into out. Arrays are C-contiguous, or (address, dtype, count).");
  m.def("sigmoid_cross_entropy_with_logits_grad", &backward, py::arg("x"), py::arg("label"),
        py::arg("grad_out"), py::arg("pos_weight") = py::none(), py::arg("grad_x") = py::none(),
        py::arg("grad_label") = py::none(), py::arg("grad_pos_weight") = py::none(),
        py::arg("normalize") = false, py::arg("ignore_index") = -100,
        py::arg("pos_weight_form") = "log1p", py::arg("num_threads") = 0, py::arg("index_bits") = 0,
        "Writes those gradients for which an array is given.");
  m.def("sigmoid_cross_entropy_with_logits_index_bits", &chosen_index_bits, py::arg("count"),
        "32 or 64: the width of element indices for that many elements.");
  m.def(
      "exp_nonpositive",
      [](const py::object& x, const py::object& out) {
        elementwise(x, out, [](auto v) { return exp_nonpositive(v); });
      },
      py::arg("x"), py::arg("out"), "out = exp(x) for x <= 0, as the kernels compute it.");
  m.def(
      "log1p_unit",
      [](const py::object& x, const py::object& out) {
        elementwise(x, out, [](auto v) { return log1p_unit(v); });
      },
      py::arg("x"), py::arg("out"), "out = log1p(x) for 0 <= x <= 1, as the kernels compute it.");
}

}  // namespace paddle_ops

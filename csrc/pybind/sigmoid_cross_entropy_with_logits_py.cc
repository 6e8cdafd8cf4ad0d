// sigmoid_cross_entropy_with_logits on NumPy arrays or raw pointers, and its exp and log1p for
// tests.

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

bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16;
}

// An array with the shape of x; `required` refuses None.
Array like_x(const char* argument, const py::object& value, const Array& x, bool writeable,
             bool required) {
  const Array array = to_array(argument, value, writeable);
  if (required && value.is_none()) throw py::type_error(std::string(argument) + ": is missing");
  if (writeable && !is_floating(array.dtype)) {
    throw py::type_error(std::string(argument) + ": expected a floating type");
  }
  if (!value.is_none()) check_shape(argument, array, x.shape);
  return array;
}

PosWeightForm form_of(const std::string& name, bool has_pos_weight) {
  if (name != "log1p" && name != "softplus") {
    throw py::value_error("pos_weight_form: expected 'log1p' or 'softplus', got '" + name + "'");
  }
  if (!has_pos_weight) return PosWeightForm::kNone;
  return name == "softplus" ? PosWeightForm::kSoftplus : PosWeightForm::kLog1p;
}

SigmoidCrossEntropyParams common_params(const Array& x, const py::object& label,
                                        const py::object& pos_weight, const Options& options) {
  if (!is_floating(x.dtype)) throw py::type_error("x: expected a floating type");
  SigmoidCrossEntropyParams p;
  p.count = 1;
  for (const int64_t size : x.shape) p.count *= size;
  p.x = x.input();
  p.label = like_x("label", label, x, false, true).input();
  p.pos_weight = like_x("pos_weight", pos_weight, x, false, false).input();
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
  const py::gil_scoped_release release;
  kernel(p);
}

void forward(const py::object& out, const py::object& x, const py::object& label,
             const py::object& pos_weight, bool normalize, int ignore_index,
             const std::string& pos_weight_form, int num_threads, int index_bits) {
  const Array logits = to_array("x", x, false);
  SigmoidCrossEntropyParams p =
      common_params(logits, label, pos_weight,
                    {normalize, ignore_index, pos_weight_form, num_threads, index_bits});
  p.out = like_x("out", out, logits, true, true).output();
  run(sigmoid_cross_entropy_kernels().forward, p);
}

void backward(const py::object& grad_out, const py::object& x, const py::object& label,
              const py::object& pos_weight, const py::object& grad_x, const py::object& grad_label,
              const py::object& grad_pos_weight, bool normalize, int ignore_index,
              const std::string& pos_weight_form, int num_threads, int index_bits) {
  const Array logits = to_array("x", x, false);
  SigmoidCrossEntropyParams p =
      common_params(logits, label, pos_weight,
                    {normalize, ignore_index, pos_weight_form, num_threads, index_bits});
  p.grad_out = like_x("grad_out", grad_out, logits, false, true).input();
  p.grad_x = like_x("grad_x", grad_x, logits, true, false).output();
  p.grad_label = like_x("grad_label", grad_label, logits, true, false).output();
  p.grad_pos_weight = like_x("grad_pos_weight", grad_pos_weight, logits, true, false).output();
  run(sigmoid_cross_entropy_kernels().backward, p);
}

void double_backward(const py::object& grad_out, const py::object& x, const py::object& label,
                     const py::object& pos_weight, const py::object& grad_grad_x,
                     const py::object& grad_grad_label, const py::object& grad_grad_pos_weight,
                     const py::object& grad_grad_out, const py::object& grad_x,
                     const py::object& grad_label, const py::object& grad_pos_weight,
                     bool normalize, int ignore_index, const std::string& pos_weight_form,
                     int num_threads, int index_bits) {
  const Array logits = to_array("x", x, false);
  SigmoidCrossEntropyParams p =
      common_params(logits, label, pos_weight,
                    {normalize, ignore_index, pos_weight_form, num_threads, index_bits});
  const auto input = [&](const char* name, const py::object& value) {
    return like_x(name, value, logits, false, false).input();
  };
  const auto output = [&](const char* name, const py::object& value) {
    return like_x(name, value, logits, true, false).output();
  };
  p.grad_out = like_x("grad_out", grad_out, logits, false, true).input();
  p.grad_grad_x = input("grad_grad_x", grad_grad_x);
  p.grad_grad_label = input("grad_grad_label", grad_grad_label);
  p.grad_grad_pos_weight = input("grad_grad_pos_weight", grad_grad_pos_weight);
  p.grad_grad_out = output("grad_grad_out", grad_grad_out);
  p.grad_x = output("grad_x", grad_x);
  p.grad_label = output("grad_label", grad_label);
  p.grad_pos_weight = output("grad_pos_weight", grad_pos_weight);
  run(sigmoid_cross_entropy_kernels().double_backward, p);
}

// Whether indices of `count` elements are 32 bits wide.
bool count_fits_int32(int64_t count) {
  SigmoidCrossEntropyParams p;
  p.count = count;
  return uses_int32(p);
}

template <typename T, typename Function>
void apply(const Array& x, const Array& out, const Function& function) {
  int64_t count = 1;
  for (const int64_t size : x.shape) count *= size;
  for (int64_t i = 0; i < count; ++i) {
    static_cast<T*>(out.data)[i] = function(static_cast<const T*>(x.data)[i]);
  }
}

// out = function(x) for float32 and float64
template <typename Function>
void elementwise(const py::object& out, const py::object& x, const Function& function) {
  const Array from = to_array("x", x, false);
  const Array to = to_array("out", out, true);
  check_shape("out", to, from.shape);
  if (from.dtype != to.dtype) throw py::type_error("out: expected the type of x");
  if (from.dtype == DType::kFloat32) return apply<float>(from, to, function);
  if (from.dtype == DType::kFloat64) return apply<double>(from, to, function);
  throw py::type_error("x: expected float32 or float64");
}

}  // namespace

void bind_sigmoid_cross_entropy_with_logits(py::module_& m) {
  using py::arg;
  m.def("sigmoid_cross_entropy_with_logits_forward", &forward,
        "Writes out; the other arrays are read.", arg("out"), arg("x"), arg("label"),
        arg("pos_weight") = py::none(), arg("normalize") = false, arg("ignore_index") = -100,
        arg("pos_weight_form") = "log1p", arg("num_threads") = 0, arg("index_bits") = 0);
  m.def("sigmoid_cross_entropy_with_logits_backward", &backward,
        "Writes those gradients that are not None.", arg("grad_out"), arg("x"), arg("label"),
        arg("pos_weight") = py::none(), arg("grad_x") = py::none(), arg("grad_label") = py::none(),
        arg("grad_pos_weight") = py::none(), arg("normalize") = false, arg("ignore_index") = -100,
        arg("pos_weight_form") = "log1p", arg("num_threads") = 0, arg("index_bits") = 0);
  m.def("sigmoid_cross_entropy_with_logits_double_backward", &double_backward,
        "Writes those of grad_grad_out, grad_x, grad_label and grad_pos_weight that are not None: "
        "the gradients of the sum of backward's results times the cotangents grad_grad_*.",
        arg("grad_out"), arg("x"), arg("label"), arg("pos_weight") = py::none(),
        arg("grad_grad_x") = py::none(), arg("grad_grad_label") = py::none(),
        arg("grad_grad_pos_weight") = py::none(), arg("grad_grad_out") = py::none(),
        arg("grad_x") = py::none(), arg("grad_label") = py::none(),
        arg("grad_pos_weight") = py::none(), arg("normalize") = false, arg("ignore_index") = -100,
        arg("pos_weight_form") = "log1p", arg("num_threads") = 0, arg("index_bits") = 0);
  m.def("sigmoid_cross_entropy_with_logits_fits_int32", &count_fits_int32,
        "Whether the 32-bit index path is taken.", arg("count"));
  m.def(
      "exp_nonpositive",
      [](const py::object& out, const py::object& x) {
        elementwise(out, x, [](auto v) { return exp_nonpositive(v); });
      },
      "out = exp(x) for x <= 0, as the kernels compute it.", arg("out"), arg("x"));
  m.def(
      "log1p_unit",
      [](const py::object& out, const py::object& x) {
        elementwise(out, x, [](auto v) { return log1p_unit(v); });
      },
      "out = log1p(x) for 0 <= x <= 1, as the kernels compute it.", arg("out"), arg("x"));
}

}  // namespace paddle_ops

// Paddle operator paddle_ops_sigmoid_cross_entropy_with_logits, its gradient and double gradient.
//
// An absent pos_weight is passed as a placeholder with has_pos_weight = false: inputs that are
// optional and have gradients break static graphs.

#include "targets/sigmoid_cross_entropy_with_logits.h"

#include "binding/check.h"
#include "binding/plain_layout.h"
#include "binding/spmd.h"
#ifdef PADDLE_OPS_CUDA
#include "binding/cuda.h"
#include "targets/sigmoid_cross_entropy_with_logits_cuda.h"
#endif

namespace paddle_ops {
namespace {

constexpr char kOp[] = "sigmoid_cross_entropy_with_logits";

// The attributes, as every kernel function of the operator receives them.
struct Attributes {
  bool normalize;
  int ignore_index;
  const std::string& pos_weight_form;
  bool has_pos_weight;
  const std::vector<int>& needs;  // gradients wanted for X, Label, PosWeight
};

PosWeightForm form_of(const Attributes& a) {
  const bool softplus = a.pos_weight_form == "softplus";
  if (!softplus && a.pos_weight_form != "log1p") {
    fail(kOp, "pos_weight_form", "'log1p' or 'softplus'", "'" + a.pos_weight_form + "'");
  }
  if (!a.has_pos_weight) return PosWeightForm::kNone;
  return softplus ? PosWeightForm::kSoftplus : PosWeightForm::kLog1p;
}

void check_like_x(const char* argument, const Tensor& tensor, const Tensor& x) {
  check_dense(kOp, argument, tensor, x);
  check_shape(kOp, argument, tensor, x.shape());
}

// Checks what the three passes have in common and translates it for the kernels.
SigmoidCrossEntropyParams common_params(const Tensor& x, const Tensor& label,
                                        const Tensor& pos_weight, const Attributes& a) {
  check_dense(kOp, "X", x, x);
  check_floating(kOp, "X", x);
  check_like_x("Label", label, x);
  if (a.needs.size() != 3) fail(kOp, "needs", "3 flags", to_text(a.needs.size()));
  SigmoidCrossEntropyParams p;
  p.count = x.numel();
  p.form = form_of(a);
  p.normalize = a.normalize;
  p.ignore_index = a.ignore_index;
  p.x = const_data(kOp, "X", x);
  p.label = const_data(kOp, "Label", label);
  if (a.has_pos_weight) {
    check_like_x("PosWeight", pos_weight, x);
    check_floating(kOp, "PosWeight", pos_weight);
    p.pos_weight = const_data(kOp, "PosWeight", pos_weight);
  }
  return p;
}

ConstData cotangent(const char* argument, const Tensor& tensor, const Tensor& x) {
  check_like_x(argument, tensor, x);
  check_floating(kOp, argument, tensor);
  return const_data(kOp, argument, tensor);
}

// Memory for one gradient if it is wanted, else a placeholder.
Tensor gradient(const char* argument, const Tensor& like, bool wanted, MutableData* data) {
  if (!wanted) return unwanted_gradient(like);
  check_floating(kOp, argument, like);
  Tensor grad = new_tensor(like.shape(), like.dtype(), like.place());
  *data = mutable_data(kOp, argument, grad);
  return grad;
}

enum class Pass : int { kForward, kBackward, kDoubleBackward };

void run(Pass pass, const Tensor& x, const SigmoidCrossEntropyParams& p) {
#ifdef PADDLE_OPS_CUDA
  if (x.is_gpu()) {
    const auto& gpu = sigmoid_cross_entropy_cuda;
    const decltype(gpu.forward) passes[] = {gpu.forward, gpu.backward, gpu.double_backward};
    const auto kernel = passes[static_cast<int>(pass)];
    return run_on_gpu(kOp, x, gpu.workspace_bytes(p), p, kernel);
  }
#endif
  const auto& cpu = sigmoid_cross_entropy_kernels();
  const decltype(cpu.forward) passes[] = {cpu.forward, cpu.backward, cpu.double_backward};
  passes[static_cast<int>(pass)](p);
}

std::vector<Tensor> forward(const Tensor& x, const Tensor& label, const Tensor& pos_weight,
                            bool normalize, int ignore_index, const std::string& pos_weight_form,
                            bool has_pos_weight, const std::vector<int>& needs) {
  return guarded(kOp, [&]() -> std::vector<Tensor> {
    const auto plain = [](const Tensor& tensor) { return in_plain_layout(kOp, tensor); };
    const Tensor in[] = {plain(x), plain(label), plain(pos_weight)};
    SigmoidCrossEntropyParams p = common_params(
        in[0], in[1], in[2], {normalize, ignore_index, pos_weight_form, has_pos_weight, needs});
    Tensor out = new_tensor(x.shape(), x.dtype(), x.place());
    p.out = mutable_data(kOp, "Out", out);
    run(Pass::kForward, x, p);
    return {out};
  });
}

std::vector<Tensor> backward(const Tensor& x, const Tensor& label, const Tensor& pos_weight,
                             const Tensor& grad_out, bool normalize, int ignore_index,
                             const std::string& pos_weight_form, bool has_pos_weight,
                             const std::vector<int>& needs) {
  return guarded(kOp, [&]() -> std::vector<Tensor> {
    SigmoidCrossEntropyParams p = common_params(
        x, label, pos_weight, {normalize, ignore_index, pos_weight_form, has_pos_weight, needs});
    p.grad_out = cotangent("Out@GRAD", grad_out, x);
    Tensor grad_x = gradient("X", x, needs[0], &p.grad_x);
    Tensor grad_label = gradient("Label", label, needs[1], &p.grad_label);
    Tensor grad_pos_weight =
        gradient("PosWeight", pos_weight, has_pos_weight && needs[2], &p.grad_pos_weight);
    run(Pass::kBackward, x, p);
    return {grad_x, grad_label, grad_pos_weight};
  });
}

// The cotangent of a gradient that was computed; undefined when nothing depends on it.
ConstData optional_cotangent(const char* argument, const Tensor& tensor, const Tensor& x,
                             bool present) {
  const bool there = present && tensor.defined() && tensor.initialized();
  return there ? cotangent(argument, tensor, x) : ConstData{};
}

std::vector<Tensor> double_backward(const Tensor& x, const Tensor& label, const Tensor& pos_weight,
                                    const Tensor& grad_out, const Tensor& grad_grad_x,
                                    const Tensor& grad_grad_label,
                                    const Tensor& grad_grad_pos_weight, bool normalize,
                                    int ignore_index, const std::string& pos_weight_form,
                                    bool has_pos_weight, const std::vector<int>& needs) {
  return guarded(kOp, [&]() -> std::vector<Tensor> {
    SigmoidCrossEntropyParams p = common_params(
        x, label, pos_weight, {normalize, ignore_index, pos_weight_form, has_pos_weight, needs});
    p.grad_out = cotangent("Out@GRAD", grad_out, x);
    const bool weighted = has_pos_weight && needs[2];
    p.grad_grad_x = optional_cotangent("X@GRAD@GRAD", grad_grad_x, x, needs[0]);
    p.grad_grad_label = optional_cotangent("Label@GRAD@GRAD", grad_grad_label, x, needs[1]);
    p.grad_grad_pos_weight =
        optional_cotangent("PosWeight@GRAD@GRAD", grad_grad_pos_weight, x, weighted);
    Tensor second_x = gradient("X", x, needs[0], &p.grad_x);
    Tensor second_label = gradient("Label", label, needs[1], &p.grad_label);
    Tensor second_pos_weight = gradient("PosWeight", pos_weight, weighted, &p.grad_pos_weight);
    Tensor grad_grad_out = gradient("Out@GRAD", grad_out, true, &p.grad_grad_out);
    run(Pass::kDoubleBackward, x, p);
    return {second_x, second_label, second_pos_weight, grad_grad_out};
  });
}

std::vector<Shape> infer_shape(const Shape& x, const Shape& label, const Shape& pos_weight) {
  return {x};
}

DataTypes infer_dtype(paddle::DataType x, paddle::DataType label, paddle::DataType pos_weight) {
  return {x};
}

#ifdef CUSTOM_OP_WITH_SPMD
// Element by element, split in any way; but normalize counts the elements of the whole tensor, and
// a placeholder is everybody's.
std::vector<SpmdRole> roles_of(const SpmdInputs& inputs, const SpmdAttributes& attributes) {
  const bool normalize = paddle::any_cast<bool>(attributes[0]);
  std::vector<SpmdRole> roles;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool like_x = spmd_input(inputs, i).dims() == spmd_input(inputs, 0).dims();
    roles.push_back(like_x && !normalize ? SpmdRole::kSplit : SpmdRole::kWhole);
  }
  return roles;
}

phi::distributed::SpmdInfo split_forward(const SpmdInputs& inputs,
                                         const SpmdAttributes& attributes) {
  const std::vector<SpmdRole> roles = roles_of(inputs, attributes);
  return split_alike(inputs, roles, {{0, roles[0]}}, spmd_input(inputs, 0).dims().size());
}

phi::distributed::SpmdInfo split_backward(const SpmdInputs& inputs,
                                          const SpmdAttributes& attributes) {
  const std::vector<SpmdRole> roles = roles_of(inputs, attributes);
  return split_alike(inputs, roles, {{0, roles[0]}, {1, roles[1]}, {2, roles[2]}},
                     spmd_input(inputs, 0).dims().size());
}

// Paddle takes the inputs that are there for the first ones of the operator, and crashes when one
// is missing: here, the gradient of a gradient that nobody asked for.
phi::distributed::SpmdInfo split_double_backward(const SpmdInputs& inputs,
                                                 const SpmdAttributes& attributes) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (spmd_input(inputs, i).initialized()) continue;
    fail(kOp, "double gradient",
         "tensors that are not split, or gradients of x, label and pos_weight that are all used",
         "split tensors, and one of these gradients is not used");
  }
  const std::vector<SpmdRole> roles = roles_of(inputs, attributes);
  return split_alike(inputs, roles, {{0, roles[0]}, {1, roles[1]}, {2, roles[2]}, {3, roles[3]}},
                     spmd_input(inputs, 0).dims().size());
}
#endif

}  // namespace
}  // namespace paddle_ops

#define ATTRIBUTES                                                                                 \
  {"normalize: bool", "ignore_index: int", "pos_weight_form: std::string", "has_pos_weight: bool", \
   "needs: std::vector<int>"}

PD_BUILD_OP(paddle_ops_sigmoid_cross_entropy_with_logits)
    .Inputs({"X", "Label", "PosWeight"})
    .Outputs({"Out"})
    .Attrs(ATTRIBUTES)
#ifdef CUSTOM_OP_WITH_SPMD
    .SetInferSpmdFn(paddle_ops::split_forward)
#endif
    .SetKernelFn(PD_KERNEL(paddle_ops::forward))
    .SetInferShapeFn(PD_INFER_SHAPE(paddle_ops::infer_shape))
    .SetInferDtypeFn(PD_INFER_DTYPE(paddle_ops::infer_dtype));

PD_BUILD_GRAD_OP(paddle_ops_sigmoid_cross_entropy_with_logits)
    .Inputs({"X", "Label", "PosWeight", paddle::Grad("Out")})
    .Outputs({paddle::Grad("X"), paddle::Grad("Label"), paddle::Grad("PosWeight")})
    .Attrs(ATTRIBUTES)
#ifdef CUSTOM_OP_WITH_SPMD
    .SetInferSpmdFn(paddle_ops::split_backward)
#endif
    .SetKernelFn(PD_KERNEL(paddle_ops::backward));

PD_BUILD_DOUBLE_GRAD_OP(paddle_ops_sigmoid_cross_entropy_with_logits)
    .Inputs({"X", "Label", "PosWeight", paddle::Grad("Out"), paddle::Grad(paddle::Grad("X")),
             paddle::Grad(paddle::Grad("Label")), paddle::Grad(paddle::Grad("PosWeight"))})
    .Outputs({paddle::New(paddle::Grad("X")), paddle::New(paddle::Grad("Label")),
              paddle::New(paddle::Grad("PosWeight")), paddle::Grad(paddle::Grad("Out"))})
    .Attrs(ATTRIBUTES)
#ifdef CUSTOM_OP_WITH_SPMD
    .SetInferSpmdFn(paddle_ops::split_double_backward)
#endif
    .SetKernelFn(PD_KERNEL(paddle_ops::double_backward));

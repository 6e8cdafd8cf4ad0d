// The Paddle operator paddle_ops_deform_conv2d and its gradient: check, describe, allocate, run.
//
// Bias and Mask are always passed; has_bias and has_mask say whether they mean anything. Paddle's
// optional inputs would break static graphs as soon as one of them has a gradient.

#include <algorithm>
#include <string>
#include <vector>

#include "binding/check.h"
#include "binding/plain_layout.h"
#include "binding/spmd.h"
#include "targets/deform_conv2d_select.h"
#include "targets/thread_budget.h"
#include "targets/workspace.h"
#ifdef PADDLE_OPS_CUDA
#include "binding/cuda.h"
#include "targets/deform_conv2d_cuda.h"
#endif

namespace paddle_ops {
namespace {

constexpr const char* kOp = "deform_conv2d";

struct Inputs {
  const Tensor &x, &offset, &weight, &bias, &mask;
};

struct Attributes {
  const std::vector<int>&strides, &paddings,
      &dilations;  // [h, w], [top, bottom, left, right], [h, w]
  int deformable_groups, groups;
  const std::string& boundary_grad;
  bool has_bias, has_mask;
};

void check_numbers(const char* argument, const std::vector<int>& got, size_t count, int least) {
  for (const int value : got) {
    if (value < least) fail(kOp, argument, to_text("values of at least ", least), to_text(value));
  }
  if (got.size() != count) {
    fail(kOp, argument, to_text(count, " values"), to_text(got.size(), " values"));
  }
}

void check_attributes(const Attributes& a) {
  check_numbers("stride", a.strides, 2, 1);
  check_numbers("padding", a.paddings, 4, 0);
  check_numbers("dilation", a.dilations, 2, 1);
  check_numbers("deformable_groups", {a.deformable_groups}, 1, 1);
  check_numbers("groups", {a.groups}, 1, 1);
  if (a.boundary_grad != "paddle" && a.boundary_grad != "torchvision") {
    fail(kOp, "boundary_grad", "'paddle' or 'torchvision'", "'" + a.boundary_grad + "'");
  }
}

void check_types(const Inputs& in, const Attributes& a) {
  check_dense(kOp, "x", in.x, in.x);
  check_dense(kOp, "offset", in.offset, in.x);
  check_dense(kOp, "weight", in.weight, in.x);
  check_floating(kOp, "x", in.x);
  check_dtype(kOp, "weight", in.weight, in.x.dtype());
  // Half precision cannot tell pixels apart beyond 1024, so offsets (and masks) may be wider.
  const bool half = size_of(element_type(kOp, "x", in.x)) == 2;
  const auto check_plan_type = [&](const char* argument, const Tensor& tensor) {
    if (half && tensor.dtype() == paddle::DataType::FLOAT32) return;
    check_dtype(kOp, argument, tensor, in.x.dtype());
  };
  check_plan_type("offset", in.offset);
  if (a.has_mask) {
    check_dense(kOp, "mask", in.mask, in.x);
    check_plan_type("mask", in.mask);
  }
  if (a.has_bias) {
    check_dense(kOp, "bias", in.bias, in.x);
    check_dtype(kOp, "bias", in.bias, in.x.dtype());
  }
}

// Output length of one dimension; 0 or less when the kernel does not fit.
int64_t out_size(int64_t size, int64_t padding, int64_t dilation, int64_t kernel, int64_t stride) {
  const int64_t room = size + padding - (dilation * (kernel - 1) + 1);
  return room < 0 ? 0 : room / stride + 1;
}

void check_rank(const char* argument, const Tensor& tensor) {
  if (tensor.shape().size() != 4) fail(kOp, argument, "4 dimensions", to_text(tensor.shape()));
}

void check_positive(const char* argument, const Tensor& tensor, const char* what) {
  const Shape shape = tensor.shape();
  if (shape[2] < 1 || shape[3] < 1) {
    fail(kOp, argument, to_text(what, " of at least 1 by 1"), to_text(shape));
  }
}

// Checks everything; what it returns is safe to run.
DeformConv2dShape check_shapes(const Inputs& in, const Attributes& a) {
  check_rank("x", in.x);
  check_rank("offset", in.offset);
  check_rank("weight", in.weight);
  check_positive("x", in.x, "an image");
  check_positive("weight", in.weight, "a kernel");
  const Shape x = in.x.shape(), weight = in.weight.shape();
  const int64_t groups = a.groups, deformable = a.deformable_groups;
  if (x[1] % groups != 0)
    fail(kOp, "groups", to_text("a divisor of the ", x[1], " channels of x"), to_text(groups));
  if (weight[0] % groups != 0) {
    fail(kOp, "groups", to_text("a divisor of the ", weight[0], " outputs of weight"),
         to_text(groups));
  }
  if (x[1] % deformable != 0) {
    fail(kOp, "deformable_groups", to_text("a divisor of the ", x[1], " channels of x"),
         to_text(deformable));
  }
  DeformConv2dShape s{x[0],
                      x[1],
                      x[2],
                      x[3],
                      weight[0],
                      weight[2],
                      weight[3],
                      0,
                      0,
                      a.strides[0],
                      a.strides[1],
                      a.paddings[0],
                      a.paddings[2],
                      a.dilations[0],
                      a.dilations[1],
                      groups,
                      deformable};
  check_shape(kOp, "weight", in.weight, {s.o, s.group_in(), s.kh, s.kw});
  s.oh = out_size(s.h, int64_t{a.paddings[0]} + a.paddings[1], s.dilation_h, s.kh, s.stride_h);
  s.ow = out_size(s.w, int64_t{a.paddings[2]} + a.paddings[3], s.dilation_w, s.kw, s.stride_w);
  if (s.oh < 1 || s.ow < 1) {
    fail(kOp, "weight", "a kernel that fits into the padded image (the output would be empty)",
         to_text("kernel ", to_text({s.kh, s.kw}), " on image ", to_text({s.h, s.w})));
  }
  const int64_t taps = deformable * s.taps();
  check_shape(kOp, "offset", in.offset, {s.n, 2 * taps, s.oh, s.ow});
  if (a.has_mask) check_shape(kOp, "mask", in.mask, {s.n, taps, s.oh, s.ow});
  if (a.has_bias) check_shape(kOp, "bias", in.bias, {s.o});
  return s;
}

DeformConv2dParams make_params(const Inputs& in, const Attributes& a) {
  check_attributes(a);
  check_types(in, a);
  DeformConv2dParams p;
  p.shape = check_shapes(in, a);
  p.boundary_grad =
      a.boundary_grad == "torchvision" ? BoundaryGrad::kTorchvision : BoundaryGrad::kPaddle;
  p.x = const_data(kOp, "x", in.x);
  p.offset = const_data(kOp, "offset", in.offset);
  p.weight = const_data(kOp, "weight", in.weight);
  if (a.has_bias) p.bias = const_data(kOp, "bias", in.bias);
  if (a.has_mask) p.mask = const_data(kOp, "mask", in.mask);
  return p;
}

void run(Direction direction, const Tensor& x, DeformConv2dParams* params) {
#ifdef PADDLE_OPS_CUDA
  if (x.is_gpu()) {
    params->deterministic = wants_deterministic();
    params->scratch_bytes = deform_conv2d_cuda_scratch_bytes();
    const DeformConv2dCudaKernel kernel = deform_conv2d_cuda_kernel(direction, *params);
    return run_on_gpu(kOp, x, kernel.workspace_bytes(*params), *params, kernel.run);
  }
#endif
  const ThreadBudget budget(params->num_threads);
  params->num_threads = budget.threads();
  const DeformConv2dKernel kernel = deform_conv2d_kernel(direction, *params);
  const Workspace scratch(kernel.workspace_bytes(*params));
  kernel.run(*params, scratch.get());
}

std::vector<Tensor> forward(const Tensor& x, const Tensor& offset, const Tensor& weight,
                            const Tensor& bias, const Tensor& mask, const std::vector<int>& strides,
                            const std::vector<int>& paddings, const std::vector<int>& dilations,
                            int deformable_groups, int groups, const std::string& boundary_grad,
                            bool has_bias, bool has_mask, const std::vector<int>& /*needs*/) {
  return guarded(kOp, [&]() -> std::vector<Tensor> {
    const auto plain = [](const Tensor& tensor) { return in_plain_layout(kOp, tensor); };
    const Tensor in[] = {plain(x), plain(offset), plain(weight), plain(bias), plain(mask)};
    DeformConv2dParams p = make_params({in[0], in[1], in[2], in[3], in[4]},
                                       {strides, paddings, dilations, deformable_groups, groups,
                                        boundary_grad, has_bias, has_mask});
    const DeformConv2dShape& s = p.shape;
    Tensor out = new_tensor({s.n, s.o, s.oh, s.ow}, x.dtype(), x.place());
    p.out = mutable_data(kOp, "out", out);
    run(Direction::kForward, x, &p);
    return {out};
  });
}

std::vector<Tensor> backward(const Tensor& x, const Tensor& offset, const Tensor& weight,
                             const Tensor& bias, const Tensor& mask, const Tensor& grad_out,
                             const std::vector<int>& strides, const std::vector<int>& paddings,
                             const std::vector<int>& dilations, int deformable_groups, int groups,
                             const std::string& boundary_grad, bool has_bias, bool has_mask,
                             const std::vector<int>& needs) {
  return guarded(kOp, [&]() -> std::vector<Tensor> {
    DeformConv2dParams p = make_params({x, offset, weight, bias, mask},
                                       {strides, paddings, dilations, deformable_groups, groups,
                                        boundary_grad, has_bias, has_mask});
    const DeformConv2dShape& s = p.shape;
    check_dense(kOp, "grad of out", grad_out, x);
    check_dtype(kOp, "grad of out", grad_out, x.dtype());
    check_shape(kOp, "grad of out", grad_out, {s.n, s.o, s.oh, s.ow});
    if (needs.size() != 5) fail(kOp, "needs", "5 flags", to_text(needs.size()));
    p.grad_out = const_data(kOp, "grad of out", grad_out);
    std::vector<Tensor> gradients;
    const auto wanted = [&](const Tensor& input, bool present) {
      const bool needed = present && needs[gradients.size()] != 0;
      gradients.push_back(needed ? new_tensor(input.shape(), input.dtype(), input.place())
                                 : unwanted_gradient(input));
      return needed ? mutable_data(kOp, "gradient", gradients.back()) : MutableData{};
    };
    p.grad_x = wanted(x, true);
    p.grad_offset = wanted(offset, true);
    p.grad_weight = wanted(weight, true);
    p.grad_bias = wanted(bias, has_bias);
    p.grad_mask = wanted(mask, has_mask);
    run(Direction::kBackward, x, &p);
    return gradients;
  });
}

// Runs while a program is built, where an exception would end the process: a size that is unknown
// (-1) or that makes no sense becomes -1, and the kernel complains when it runs.
std::vector<Shape> infer_shape(const Shape& x, const Shape& /*offset*/, const Shape& weight,
                               const Shape& /*bias*/, const Shape& /*mask*/,
                               const std::vector<int>& strides, const std::vector<int>& paddings,
                               const std::vector<int>& dilations) {
  Shape out{-1, -1, -1, -1};
  if (x.size() != 4 || weight.size() != 4) return {out};
  out[0] = x[0];
  out[1] = weight[0];
  if (strides.size() != 2 || paddings.size() != 4 || dilations.size() != 2) return {out};
  for (int i = 0; i < 2; ++i) {
    if (x[2 + i] < 0 || weight[2 + i] < 0 || strides[i] < 1) continue;
    const int64_t padding = int64_t{paddings[2 * i]} + paddings[2 * i + 1];
    const int64_t size = out_size(x[2 + i], padding, dilations[i], weight[2 + i], strides[i]);
    if (size > 0) out[2 + i] = size;
  }
  return {out};
}

DataTypes infer_dtype(paddle::DataType x, paddle::DataType /*offset*/, paddle::DataType /*weight*/,
                      paddle::DataType /*bias*/, paddle::DataType /*mask*/) {
  return {x};
}

#ifdef CUSTOM_OP_WITH_SPMD
// Processes share the batch. A placeholder for the mask has one dimension and is everybody's.
SpmdRole mask_role(const SpmdInputs& inputs) {
  return spmd_input(inputs, 4).dims().size() == 4 ? SpmdRole::kSplit : SpmdRole::kWhole;
}

phi::distributed::SpmdInfo split_forward(const SpmdInputs& inputs, const SpmdAttributes&) {
  constexpr SpmdRole kSplit = SpmdRole::kSplit, kWhole = SpmdRole::kWhole;
  const std::vector<SpmdRole> roles{kSplit, kSplit, kWhole, kWhole, mask_role(inputs)};
  return split_alike(inputs, roles, {{0, kSplit}}, 1);
}

phi::distributed::SpmdInfo split_backward(const SpmdInputs& inputs, const SpmdAttributes&) {
  constexpr SpmdRole kSplit = SpmdRole::kSplit, kWhole = SpmdRole::kWhole, kSum = SpmdRole::kSum;
  const SpmdRole mask = mask_role(inputs);
  const std::vector<SpmdRole> roles{kSplit, kSplit, kWhole, kWhole, mask, kSplit};
  return split_alike(inputs, roles, {{0, kSplit}, {1, kSplit}, {2, kSum}, {3, kSum}, {4, mask}}, 1);
}
#endif

}  // namespace
}  // namespace paddle_ops

#define DEFORM_CONV2D_ATTRS       \
  {"strides: std::vector<int>",   \
   "paddings: std::vector<int>",  \
   "dilations: std::vector<int>", \
   "deformable_groups: int",      \
   "groups: int",                 \
   "boundary_grad: std::string",  \
   "has_bias: bool",              \
   "has_mask: bool",              \
   "needs: std::vector<int>"}

PD_BUILD_OP(paddle_ops_deform_conv2d)
    .Inputs({"X", "Offset", "Weight", "Bias", "Mask"})
    .Outputs({"Out"})
    .Attrs(DEFORM_CONV2D_ATTRS)
#ifdef CUSTOM_OP_WITH_SPMD
    .SetInferSpmdFn(paddle_ops::split_forward)
#endif
    .SetKernelFn(PD_KERNEL(paddle_ops::forward))
    .SetInferShapeFn(PD_INFER_SHAPE(paddle_ops::infer_shape))
    .SetInferDtypeFn(PD_INFER_DTYPE(paddle_ops::infer_dtype));

PD_BUILD_GRAD_OP(paddle_ops_deform_conv2d)
    .Inputs({"X", "Offset", "Weight", "Bias", "Mask", paddle::Grad("Out")})
    .Outputs({paddle::Grad("X"), paddle::Grad("Offset"), paddle::Grad("Weight"),
              paddle::Grad("Bias"), paddle::Grad("Mask")})
    .Attrs(DEFORM_CONV2D_ATTRS)
#ifdef CUSTOM_OP_WITH_SPMD
    .SetInferSpmdFn(paddle_ops::split_backward)
#endif
    .SetKernelFn(PD_KERNEL(paddle_ops::backward));

#pragma once
// Sigmoid cross entropy of logits x with labels y, optionally weighted by pos_weight w.
//
//   none      loss = max(x,0) - x y + log1p(exp(-|x|))
//   log1p     loss = max(x,0) - x y + w log1p(exp(-|x|))
//   softplus  loss = (1-y) x + w (log1p(exp(-|x|)) + max(-x,0))
//
// Form actually computed, the same for all three, with one coefficient c of x for either sign:
//
//   c         = x > 0 ? 1-y : (softplus ? (1-y) - w : -y)
//   loss      = c x + w log1p(exp(-|x|))
//   d_x       = c - sign(x) w sigmoid(-|x|)        log1p at x = 0: 1/2 - y, the central derivative
//   d_label   = -x
//   d_weight  = log1p(exp(-|x|)) + (softplus ? max(-x,0) : 0)
//
// Collecting what multiplies x keeps the last digits where the loss is tiny (x = 17, y = 1) and
// gives the limit, not Inf - Inf, at infinite x: a term whose coefficient is 0 contributes 0.
//
// An element with |y - ignore_index| < 1e-5 is ignored: loss and gradients are 0 whatever x is.

#include <cstdint>

#include "kernels/common/elementary.h"
#include "kernels/common/hostdevice.h"
#include "kernels/common/index.h"
#include "kernels/common/numeric.h"

namespace paddle_ops {

enum class PosWeightForm : int { kNone, kLog1p, kSoftplus };

// All tensors have `count` elements; data is null where a tensor is absent or not wanted.
struct SigmoidCrossEntropyParams {
  int64_t count = 0;
  PosWeightForm form = PosWeightForm::kNone;
  bool normalize = false;  // divide by the number of elements that are not ignored
  int ignore_index = -100;

  ConstData x;           // decides the type that everything is computed in
  ConstData label;       // any element type
  ConstData pos_weight;  // absent with kNone

  MutableData out;  // forward: the loss

  ConstData grad_out;  // backward and double backward
  MutableData grad_x;
  MutableData grad_label;
  MutableData grad_pos_weight;

  // Double backward: cotangents of the three gradients, and the cotangent of grad_out.
  // Its other three results are grad_x, grad_label and grad_pos_weight above.
  ConstData grad_grad_x;
  ConstData grad_grad_label;
  ConstData grad_grad_pos_weight;
  MutableData grad_grad_out;

  int num_threads = 0;  // 0: the default
  int index_bits = 0;   // 32 or 64 forces the width of element indices; 0: by size
};

// Element indices are the largest numbers that are formed.
PO_HOSTDEVICE bool uses_int32(const SigmoidCrossEntropyParams& p) {
  return p.index_bits == 32 || (p.index_bits == 0 && fits_int32(p.count));
}

template <typename acc_t>
PO_HOSTDEVICE bool sce_ignored(acc_t y, acc_t ignore_index) {
  const acc_t distance = y - ignore_index;
  return (distance < acc_t(0) ? -distance : distance) < acc_t(1e-5);
}

// coefficient * value, where a coefficient of 0 silences an infinite value but not a NaN
template <typename acc_t>
PO_HOSTDEVICE acc_t sce_term(acc_t coefficient, acc_t value) {
  return coefficient == acc_t(0) && value == value ? acc_t(0) : coefficient * value;
}

template <typename acc_t>
PO_HOSTDEVICE acc_t sce_decay(acc_t x) {  // exp(-|x|)
  return exp_nonpositive(x > acc_t(0) ? -x : x);
}

// c: what multiplies x in the loss
template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_slope(acc_t x, acc_t y, acc_t w) {
  const acc_t negative = acc_t(1) - y;
  if constexpr (form == PosWeightForm::kSoftplus) {
    // (1-y) - w cancels to the -y of w = 1: carry the rounding error of 1 - y along.
    const acc_t error = (acc_t(1) - negative) - y;
    return x > acc_t(0) ? negative : (negative - w) + error;
  } else {
    return x > acc_t(0) ? negative : -y;
  }
}

template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_loss(acc_t x, acc_t y, acc_t w) {
  const acc_t flat = log1p_unit(sce_decay(x));
  return sce_term(sce_slope<form>(x, y, w), x) + w * flat;
}

template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_grad_x(acc_t x, acc_t y, acc_t w) {
  const acc_t e = sce_decay(x);
  const acc_t pull = w * (e / (acc_t(1) + e));
  const acc_t c = sce_slope<form>(x, y, w);
  const acc_t grad = x > acc_t(0) ? c - pull : c + pull;
  if constexpr (form == PosWeightForm::kLog1p) {
    return x == acc_t(0) ? acc_t(0.5) - y : grad;
  } else {
    return grad;
  }
}

template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_grad_pos_weight(acc_t x) {
  const acc_t flat = log1p_unit(sce_decay(x));
  if constexpr (form == PosWeightForm::kSoftplus) {
    return flat + (x < acc_t(0) ? -x : acc_t(0));
  } else {
    return flat;
  }
}

// d2 loss / dx2 = w sigmoid(x) sigmoid(-x); the kink of log1p at x = 0 has no second derivative and
// is given the one beside it.
template <typename acc_t>
PO_HOSTDEVICE acc_t sce_grad_xx(acc_t x, acc_t w) {
  const acc_t e = sce_decay(x);
  const acc_t s = acc_t(1) / (acc_t(1) + e);
  return w * (e * s * s);
}

// d2 loss / (dx dw): the derivative of grad_pos_weight, central at the kink
template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_grad_xw(acc_t x) {
  const acc_t e = sce_decay(x);
  const acc_t s = e / (acc_t(1) + e);  // sigmoid(-|x|)
  if constexpr (form == PosWeightForm::kSoftplus) {
    return x > acc_t(0) ? -s : s - acc_t(1);
  } else {
    return x > acc_t(0) ? -s : (x == acc_t(0) ? acc_t(0) : s);
  }
}

// -- one element of each result -------------------------------------------------------------------

// What does not change from element to element.
template <typename acc_t>
struct SceScalars {
  acc_t ignore_index;
  acc_t scale;
};

// The factor of normalize, for the number of elements that are not ignored.
template <typename acc_t>
PO_HOSTDEVICE acc_t sce_scale(int64_t kept) {
  return kept > 0 ? static_cast<acc_t>(1.0 / static_cast<double>(kept)) : acc_t(0);
}

// The inputs at one element. Weight 1 and cotangent 0 stand for those that are absent.
template <typename acc_t>
struct SceElement {
  acc_t x, y, w;
  acc_t g;        // grad_out
  acc_t u, v, t;  // double backward: cotangents of grad_x, grad_label and grad_pos_weight
};

template <typename acc_t>
PO_HOSTDEVICE acc_t sce_unless_ignored(acc_t y, SceScalars<acc_t> s, acc_t value) {
  return sce_ignored(y, s.ignore_index) ? acc_t(0) : value;
}

template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_out(acc_t x, acc_t y, acc_t w, SceScalars<acc_t> s) {
  return sce_unless_ignored(y, s, sce_loss<form>(x, y, w) * s.scale);
}

template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_backward_x(acc_t x, acc_t y, acc_t w, acc_t g, SceScalars<acc_t> s) {
  return sce_unless_ignored(y, s, sce_term(g * s.scale, sce_grad_x<form>(x, y, w)));
}

template <typename acc_t>
PO_HOSTDEVICE acc_t sce_backward_label(acc_t x, acc_t y, acc_t g, SceScalars<acc_t> s) {
  return sce_unless_ignored(y, s, sce_term(g * s.scale, -x));
}

template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_backward_pos_weight(acc_t x, acc_t y, acc_t g, SceScalars<acc_t> s) {
  return sce_unless_ignored(y, s, sce_term(g * s.scale, sce_grad_pos_weight<form>(x)));
}

template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_second_grad_out(const SceElement<acc_t>& e, SceScalars<acc_t> s) {
  acc_t sum = sce_term(e.u, sce_grad_x<form>(e.x, e.y, e.w));
  sum += sce_term(e.v, -e.x);
  if (form != PosWeightForm::kNone) sum += sce_term(e.t, sce_grad_pos_weight<form>(e.x));
  return sce_unless_ignored(e.y, s, sum * s.scale);
}

template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_second_x(const SceElement<acc_t>& e, SceScalars<acc_t> s) {
  acc_t sum = e.u * sce_grad_xx(e.x, e.w) - e.v;
  if (form != PosWeightForm::kNone) sum += e.t * sce_grad_xw<form>(e.x);
  return sce_unless_ignored(e.y, s, e.g * s.scale * sum);
}

template <typename acc_t>
PO_HOSTDEVICE acc_t sce_second_label(const SceElement<acc_t>& e, SceScalars<acc_t> s) {
  return sce_unless_ignored(e.y, s, -(e.g * s.scale * e.u));
}

template <PosWeightForm form, typename acc_t>
PO_HOSTDEVICE acc_t sce_second_pos_weight(const SceElement<acc_t>& e, SceScalars<acc_t> s) {
  return sce_unless_ignored(e.y, s, e.g * s.scale * e.u * sce_grad_xw<form>(e.x));
}

}  // namespace paddle_ops

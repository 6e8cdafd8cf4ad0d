"""Binary cross entropy of logits, with weights and a reduction."""

from __future__ import annotations

import paddle

from .. import _amp, _check
from .._run import unified
from .._types import Reduction
from .sigmoid_cross_entropy_with_logits import (
    FLOATING,
    HALF,
    LABELS,
    sigmoid_cross_entropy_with_logits,
)

_OP = "binary_cross_entropy_with_logits"
REDUCTIONS = ("none", "mean", "sum")


@unified
def binary_cross_entropy_with_logits(
    logit: paddle.Tensor,
    label: paddle.Tensor,
    weight: paddle.Tensor | None = None,
    reduction: Reduction = "mean",
    pos_weight: paddle.Tensor | None = None,
    name: str | None = None,
) -> paddle.Tensor:
    r"""Binary cross entropy between logits x and labels y.

    loss = weight * ((1 - y) * x + (1 + (pos_weight - 1) * y) * log1p(exp(-x))), computed so that it
    neither overflows nor loses the last digits of a tiny loss, then reduced. Values and gradients
    equal PyTorch's; at infinite logits the limits hold.

    ``logit``, ``label``, ``weight`` and ``pos_weight`` get gradients if they ask for them.

    Args:
        logit: logits of any shape; float32, float64, float16 or bfloat16.
        label: targets of the same shape; any of these types, an integer type or bool.
        weight: factor of each element's loss; floating, of a shape that broadcasts to that of
            ``logit``. Default None.
        reduction: "mean" (default), "sum" or "none".
        pos_weight: weight of positive labels; floating, of a shape that broadcasts to that of
            ``logit``, such as one number for each class. Default None.
        name: accepted for compatibility; has no effect.

    Returns:
        A scalar, or for "none" a tensor with the shape of ``logit``. It has the type of ``logit``;
        float32 for half types under ``paddle.amp.auto_cast``.

    Raises:
        TypeError: an argument is not a tensor or has an unsupported type.
        ValueError: shapes do not match, or ``reduction`` is unknown.

    Example:
        >>> import paddle
        >>> from paddle_ops import binary_cross_entropy_with_logits
        >>> logit = paddle.to_tensor([[0.5, -1.0], [3.0, 0.0]])
        >>> label = paddle.to_tensor([[1, 0], [1, 0]])
        >>> pos_weight = paddle.to_tensor([2.0, 1.0])
        >>> loss = binary_cross_entropy_with_logits(logit, label, pos_weight=pos_weight)
        >>> print(round(float(loss), 4))
        0.5129

    Source: argument order of paddle.nn.functional.binary_cross_entropy_with_logits; values of
    torch.nn.functional.binary_cross_entropy_with_logits.
    """
    if _amp.target(()) is not None:
        args = (logit, label, weight, reduction, pos_weight)
        return _amp.in_float32(binary_cross_entropy_with_logits, *args)
    _validate(logit, label, weight, reduction, pos_weight)
    if _REFUSES_EMPTY and 0 in logit.shape:
        return _empty_loss(logit, label, reduction)
    dtype = _check.dtype_name(logit)
    # Weights and sums are Paddle's operators, which would round at each step.
    widened = dtype in HALF and (weight is not None or reduction != "none")
    x = logit.astype("float32") if widened else logit
    computing = "float32" if dtype in HALF else dtype
    if pos_weight is not None:
        pos_weight = _element_weight(label.astype(computing), pos_weight.astype(computing))
    loss = sigmoid_cross_entropy_with_logits(
        x, label, pos_weight, ignore_index=_NEVER, pos_weight_form="softplus"
    )
    if weight is not None:
        loss = loss * weight.astype(computing)
    if reduction == "mean":
        loss = loss.mean()
    elif reduction == "sum":
        loss = loss.sum()
    return loss.astype(dtype) if widened else loss


# No label is ignored here: this one is not a probability, nor a number in float16.
_NEVER = -(2**31)


def _element_weight(label: paddle.Tensor, pos_weight: paddle.Tensor) -> paddle.Tensor:
    """Return 1 + (pos_weight - 1) * label, exact for labels 0 and 1 however small the weight."""
    return (1.0 - label) + pos_weight * label


# Paddle 2.6 neither multiplies nor sums tensors of 0 elements.
_REFUSES_EMPTY = paddle.__version__.startswith("2.")


def _empty_loss(logit: paddle.Tensor, label: paddle.Tensor, reduction: Reduction) -> paddle.Tensor:
    """Return what PyTorch returns for no elements: nothing, their sum 0, or their mean NaN."""
    if reduction == "none":
        return sigmoid_cross_entropy_with_logits(logit, label, ignore_index=_NEVER)
    value = 0.0 if reduction == "sum" else float("nan")
    return paddle.full([], value, dtype=logit.dtype)


def _validate(
    logit: paddle.Tensor,
    label: paddle.Tensor,
    weight: paddle.Tensor | None,
    reduction: Reduction,
    pos_weight: paddle.Tensor | None,
) -> None:
    """Check the arguments before anything is computed."""
    _check.tensor(_OP, "logit", logit)
    _check.tensor(_OP, "label", label)
    _check.dtype(_OP, "logit", logit, FLOATING)
    _check.dtype(_OP, "label", label, LABELS)
    _check.shape(_OP, "label", label, logit.shape)
    for argument, value in (("weight", weight), ("pos_weight", pos_weight)):
        if value is not None:
            _check.tensor(_OP, argument, value)
            _check.dtype(_OP, argument, value, FLOATING)
            _check.broadcastable(_OP, argument, value, logit.shape)
    _check.choice(_OP, "reduction", reduction, REDUCTIONS)

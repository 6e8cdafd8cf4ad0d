"""Sigmoid cross entropy of logits, element by element."""

from __future__ import annotations

import paddle

from .. import _amp, _check
from .._run import run, unified
from .._types import PosWeightForm

_OP = "sigmoid_cross_entropy_with_logits"

HALF = ("float16", "bfloat16")
FLOATING = ("float32", "float64", *HALF)
LABELS = (*FLOATING, "bool", "uint8", "int8", "int16", "int32", "int64")


@unified
def sigmoid_cross_entropy_with_logits(
    x: paddle.Tensor,
    label: paddle.Tensor,
    pos_weight: paddle.Tensor | None = None,
    normalize: bool = False,
    ignore_index: int = -100,
    pos_weight_form: PosWeightForm = "log1p",
    name: str | None = None,
) -> paddle.Tensor:
    r"""Sigmoid cross entropy of logits ``x`` with labels ``y``, one loss per element.

    Without ``pos_weight``: loss = max(x, 0) - x * y + log1p(exp(-\|x\|)). With ``pos_weight`` w:

    * ``"log1p"``: loss = max(x, 0) - x * y + w * log1p(exp(-\|x\|)). Where w is not 1 it has a kink
      at x = 0, and the gradient there is the central one, 0.5 - y.
    * ``"softplus"``: loss = (1 - y) * x + w * (log1p(exp(-\|x\|)) + max(-x, 0)). With
      w = 1 + (p - 1) * y this is the usual cross entropy whose positive labels weigh p.

    Where ``label`` equals ``ignore_index`` (to 1e-5, without rounding labels to integers), the loss
    and all gradients are 0 whatever ``x`` is. At infinite ``x`` the limits hold; a NaN in ``x``
    gives NaN. Half types are computed in float32 and rounded once.

    ``x``, ``label`` and ``pos_weight`` get gradients if they ask for them, and those gradients can
    be differentiated again in dynamic graphs.

    Args:
        x: logits of any shape; float32, float64, float16 or bfloat16.
        label: targets of the same shape; any of these types, an integer type or bool.
        pos_weight: weight of any floating type whose shape is, or broadcasts to, that of ``x``.
            Default None.
        normalize: divide by the number of elements that are not ignored; if there are none, the
            result is 0. Default False.
        ignore_index: label of the elements to ignore. Default -100.
        pos_weight_form: "log1p" (default) or "softplus".
        name: accepted for compatibility; has no effect.

    Returns:
        The loss, with the shape and type of ``x``; float32 for half types under
        ``paddle.amp.auto_cast``.

    Raises:
        TypeError: an argument is not a tensor, has an unsupported type, or is no integer or bool
            where one is expected.
        ValueError: shapes do not match, or ``pos_weight_form`` is unknown.

    Example:
        >>> import paddle
        >>> from paddle_ops import sigmoid_cross_entropy_with_logits
        >>> x = paddle.to_tensor([0.0, 2.0, -1.0])
        >>> label = paddle.to_tensor([1, 1, -100])
        >>> loss = sigmoid_cross_entropy_with_logits(x, label)
        >>> print([round(v, 4) for v in loss.tolist()])
        [0.6931, 0.1269, 0.0]

    Source: the operator of the same name in Paddle (2.6 for the form "log1p", 3.0 for "softplus").
    """
    if _amp.target(()) is not None:
        args = (x, label, pos_weight, normalize, ignore_index, pos_weight_form)
        return _amp.in_float32(sigmoid_cross_entropy_with_logits, *args)
    _check.tensor(_OP, "x", x)
    _check.tensor(_OP, "label", label)
    _check.dtype(_OP, "x", x, FLOATING)
    _check.dtype(_OP, "label", label, LABELS)
    _check.shape(_OP, "label", label, x.shape)
    if pos_weight is not None:
        _check.tensor(_OP, "pos_weight", pos_weight)
        _check.dtype(_OP, "pos_weight", pos_weight, FLOATING)
        _check.broadcastable(_OP, "pos_weight", pos_weight, x.shape)
    attrs = {
        "normalize": _check.flag(_OP, "normalize", normalize),
        "ignore_index": _check.integer(_OP, "ignore_index", ignore_index),
        "pos_weight_form": pos_weight_form,
        "has_pos_weight": pos_weight is not None,
    }
    _check.choice(_OP, "pos_weight_form", pos_weight_form, ("log1p", "softplus"))
    if not label.stop_gradient and _check.dtype_name(label) not in FLOATING:
        label = label.detach()  # there is no gradient in integers
    inputs = {"X": x, "Label": label, "PosWeight": _expanded(pos_weight, x, label)}
    return run("paddle_ops_" + _OP, inputs, attrs)


def _expanded(
    pos_weight: paddle.Tensor | None, x: paddle.Tensor, label: paddle.Tensor
) -> paddle.Tensor:
    """Return what the operator takes: a tensor of x's shape, or a placeholder that it ignores."""
    if pos_weight is None:
        return label if label.stop_gradient else paddle.zeros([1], dtype=x.dtype)
    shape = list(x.shape)
    if list(pos_weight.shape) == shape and -1 not in shape:
        return pos_weight
    if 0 in shape:
        return pos_weight.flatten()[0:0].reshape(shape)  # Paddle 2.6 expands nothing to nothing
    if _check.dtype_name(pos_weight) in HALF:
        # Paddle's CPU does not expand half types; the operator takes wider weights, too.
        pos_weight = pos_weight.astype("float32")
    if -1 in shape:
        # Where sizes are unknown the gradient of Paddle 2.6's expand_as is 0.
        return pos_weight + paddle.zeros_like(x, dtype=pos_weight.dtype)
    return pos_weight.expand_as(x)

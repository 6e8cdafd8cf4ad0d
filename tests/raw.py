"""Calls the registered operators without the Python functions, and so without their checks."""

import paddle

try:
    from paddle._C_ops import _run_custom_op
except ImportError:  # Paddle 2.6
    _run_custom_op = paddle.base.core.eager._run_custom_op

DEFORM_CONV2D = "paddle_ops_deform_conv2d"
CROSS_ENTROPY = "paddle_ops_sigmoid_cross_entropy_with_logits"


def deform_conv2d(
    x,
    offset,
    weight,
    bias=None,
    mask=None,
    strides=(1, 1),
    paddings=(0, 0, 0, 0),
    dilations=(1, 1),
    deformable_groups=1,
    groups=1,
    boundary_grad="paddle",
    needs=(1, 1, 1, 1, 1),
):
    """The raw operator in a dynamic graph, or a PIR program."""
    absent = paddle.zeros([1], dtype=x.dtype)
    return _run_custom_op(
        DEFORM_CONV2D,
        x,
        offset,
        weight,
        absent if bias is None else bias,
        absent if mask is None else mask,
        list(strides),
        list(paddings),
        list(dilations),
        deformable_groups,
        groups,
        boundary_grad,
        bias is not None,
        mask is not None,
        list(needs),
    )[0]


def cross_entropy(
    x,
    label,
    pos_weight=None,
    normalize=False,
    ignore_index=-100,
    pos_weight_form="log1p",
    needs=(1, 1, 1),
):
    """The raw operator in a dynamic graph, or a PIR program."""
    absent = paddle.zeros([1], dtype=x.dtype)
    return _run_custom_op(
        CROSS_ENTROPY,
        x,
        label,
        absent if pos_weight is None else pos_weight,
        normalize,
        ignore_index,
        pos_weight_form,
        pos_weight is not None,
        list(needs),
    )[0]

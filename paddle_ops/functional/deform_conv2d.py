"""Deformable convolution, v1 (without mask) and v2 (with)."""

from __future__ import annotations

from collections.abc import Sequence

import paddle

from .. import _amp, _check
from .._run import run, unified
from .._types import BoundaryGrad

_OP = "deform_conv2d"
# On a custom black list of paddle.amp.auto_cast, Paddle's own name means this operator, too.
_AMP_NAMES = ("paddle_ops_deform_conv2d", "deformable_conv")
_NARROW = ("float32", "float16", "bfloat16")
_FLOATING = ("float64", *_NARROW)


@unified
def deform_conv2d(
    x: paddle.Tensor,
    offset: paddle.Tensor,
    weight: paddle.Tensor,
    bias: paddle.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    deformable_groups: int = 1,
    groups: int = 1,
    mask: paddle.Tensor | None = None,
    boundary_grad: BoundaryGrad = "paddle",
    name: str | None = None,
) -> paddle.Tensor:
    r"""Convolve at learned positions: each kernel tap samples the input where its offset points.

    With taps :math:`t = i\,kw + j`, :math:`K = kh\,kw`, and deformable group
    :math:`g = c \,/\, (C / deformable\_groups)` of input channel :math:`c`:

    .. math::

        out_{n,o,p} = bias_o + \sum_{c,t} weight_{o,c,t} \; mask_{n,gK+t,p} \; sample(x_{n,c}, y, x)

        y = oh \cdot stride_h - pad_{top} + i \cdot dilation_h + offset_{n,2(gK+t),p}

    and likewise for x with offset channel :math:`2(gK+t)+1`. `sample` is bilinear; a neighbour
    outside the image counts 0, and the sample exists only where :math:`-1 < y < H` and
    :math:`-1 < x < W`: elsewhere, NaN and infinite offsets included, it is 0 and so are its
    gradients. Where an infinite mask meets a sample, the output is infinite or NaN.

    Args:
        x: [N, C, H, W]; float32, float64, float16 or bfloat16.
        offset: [N, 2 * deformable_groups * kh * kw, out_h, out_w], in pixels; per tap the vertical
            offset, then the horizontal one. May be float32 while x is a half type, and should be:
            float16 cannot tell pixels apart beyond 1024.
        weight: [O, C / groups, kh, kw], with the type of x.
        bias: [O], with the type of x, or None.
        stride: One integer or [height, width], in pixels.
        padding: One integer, [height, width] or [top, bottom, left, right], in pixels.
        dilation: One integer or [height, width], in pixels.
        deformable_groups: Groups of input channels that have offsets (and masks) of their own; a
            divisor of C.
        groups: Groups of the convolution; a divisor of C and of O.
        mask: [N, deformable_groups * kh * kw, out_h, out_w], with a type like offset's, or None
            (the v1 operator).
        boundary_grad: The gradient for an offset at which a sample lies at exactly -1. "paddle"
            (also mmcv, detectron2, MXNet): 0. "torchvision": the slope to the right.
        name: Unused; it is here because Paddle's functions have it.

    Returns:
        [N, O, out_h, out_w] with the type of x, where out_h is
        ``(H + top + bottom - dilation_h * (kh - 1) - 1) // stride_h + 1``. Half types are summed in
        float32 and rounded once. Inputs that mix float32 with half types are promoted to float32.
        Under `paddle.amp.auto_cast`, x, weight and bias take its type, offset and mask do not.

    Raises:
        TypeError: An argument is not a tensor, or of a type that has no kernel.
        ValueError: A shape or a number does not fit; the message names the argument, what was
            expected and what it got.

    Example:
        >>> import paddle
        >>> from paddle_ops import deform_conv2d
        >>> x = paddle.arange(1.0, 10.0).reshape([1, 1, 3, 3])
        >>> offset = paddle.zeros([1, 2, 3, 3])
        >>> offset[:, 1] = 0.5
        >>> deform_conv2d(x, offset, paddle.ones([1, 1, 1, 1]))[0, 0].tolist()
        [[1.5, 2.5, 1.5], [4.5, 5.5, 3.0], [7.5, 8.5, 4.5]]

    Source: Dai et al., "Deformable Convolutional Networks" (arXiv 1703.06211); Zhu et al.,
    "Deformable ConvNets v2" (arXiv 1811.11168); argument order of paddle.vision.ops.deform_conv2d.
    """
    for argument, value in (("x", x), ("offset", offset), ("weight", weight)):
        _check.tensor(_OP, argument, value)
    for argument, value in (("bias", bias), ("mask", mask)):
        if value is not None:
            _check.tensor(_OP, argument, value)
    strides = _check.pair(_OP, "stride", stride, minimum=1)
    paddings = _check.paddings(_OP, "padding", padding)
    dilations = _check.pair(_OP, "dilation", dilation, minimum=1)
    deformable_groups = _check.integer(_OP, "deformable_groups", deformable_groups, minimum=1)
    groups = _check.integer(_OP, "groups", groups, minimum=1)
    _check.choice(_OP, "boundary_grad", boundary_grad, ("paddle", "torchvision"))
    _check_shapes(
        x, offset, weight, bias, mask, strides, paddings, dilations, deformable_groups, groups
    )
    amp_dtype = _amp.target(_AMP_NAMES)
    if amp_dtype is not None:  # not offset and mask: half types cannot tell pixels apart
        x, weight, bias = (_amp.cast(value, amp_dtype) for value in (x, weight, bias))
    x, offset, weight, bias, mask = _unify_types(x, offset, weight, bias, mask)
    absent = paddle.zeros([1], dtype=x.dtype) if bias is None or mask is None else None
    return run(
        "paddle_ops_deform_conv2d",
        {
            "X": x,
            "Offset": offset,
            "Weight": weight,
            "Bias": absent if bias is None else bias,
            "Mask": absent if mask is None else mask,
        },
        {
            "strides": strides,
            "paddings": paddings,
            "dilations": dilations,
            "deformable_groups": deformable_groups,
            "groups": groups,
            "boundary_grad": boundary_grad,
            "has_bias": bias is not None,
            "has_mask": mask is not None,
        },
    )


def _unify_types(x, offset, weight, bias, mask):
    """Cast so that x, weight and bias agree, and offset and mask are theirs or float32."""
    given = {"x": x, "offset": offset, "weight": weight, "bias": bias, "mask": mask}
    given = {argument: value for argument, value in given.items() if value is not None}
    for argument, value in given.items():
        _check.dtype(_OP, argument, value, _FLOATING)
    names = {argument: _check.dtype_name(value) for argument, value in given.items()}
    if "float64" in names.values():
        for argument, value in given.items():
            _check.dtype(_OP, argument, value, ("float64",) if names["x"] == "float64" else _NARROW)
        return x, offset, weight, bias, mask
    common = {names[argument] for argument in ("x", "weight", "bias") if argument in names}
    compute = common.pop() if len(common) == 1 else "float32"

    def cast(value, allowed):
        if value is None or _check.dtype_name(value) in allowed:
            return value
        return value.astype(compute)

    plan_types = (compute, "float32")
    return (
        cast(x, (compute,)),
        cast(offset, plan_types),
        cast(weight, (compute,)),
        cast(bias, (compute,)),
        cast(mask, plan_types),
    )


def _check_shapes(
    x, offset, weight, bias, mask, strides, paddings, dilations, deformable_groups, groups
):
    """Check every shape against the others; sizes of -1 (static graphs) fit everything."""
    _check.rank(_OP, "x", x, 4, "[N, C, H, W]")
    _check.rank(_OP, "offset", offset, 4, "[N, 2 * deformable_groups * kh * kw, out_h, out_w]")
    _check.rank(_OP, "weight", weight, 4, "[O, C / groups, kh, kw]")
    batch, channels, *image = x.shape
    outputs, _, *kernel = weight.shape
    for argument, sizes in (("x", image), ("weight", kernel)):
        if 0 in sizes:
            _check.fail(_OP, argument, "a height and a width of at least 1", list(sizes))
    for argument, divisor, of, size in (
        ("groups", groups, "channels of x", channels),
        ("groups", groups, "outputs of weight", outputs),
        ("deformable_groups", deformable_groups, "channels of x", channels),
    ):
        if size != -1 and size % divisor:
            _check.fail(_OP, argument, f"a divisor of the {size} {of}", divisor)
    group_in = -1 if channels == -1 else channels // groups
    _check.shape(_OP, "weight", weight, [outputs, group_in, *kernel], "[O, C / groups, kh, kw]")
    out = [
        _out_size(image[i], sum(paddings[2 * i : 2 * i + 2]), dilations[i], kernel[i], strides[i])
        for i in range(2)
    ]
    if any(size != -1 and size < 1 for size in out):
        expected = "a kernel that fits into the padded image (the output would be empty)"
        got = f"kernel {kernel} with dilation {dilations} on image {image} with padding {paddings}"
        _check.fail(_OP, "weight", expected, got)
    taps = -1 if -1 in kernel else deformable_groups * kernel[0] * kernel[1]
    _check.shape(
        _OP,
        "offset",
        offset,
        [batch, -1 if taps == -1 else 2 * taps, *out],
        "[N, 2 * deformable_groups * kh * kw, out_h, out_w]",
    )
    if mask is not None:
        layout = "[N, deformable_groups * kh * kw, out_h, out_w]"
        _check.shape(_OP, "mask", mask, [batch, taps, *out], layout)
    if bias is not None:
        _check.shape(_OP, "bias", bias, [outputs], "[O]")


def _out_size(size: int, padding: int, dilation: int, kernel: int, stride: int) -> int:
    """Return the output's length in one dimension; -1 when it is not known yet."""
    if -1 in (size, kernel):
        return -1
    room = size + padding - (dilation * (kernel - 1) + 1)
    return 0 if room < 0 else room // stride + 1

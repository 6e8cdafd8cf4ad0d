"""The layer over deform_conv2d."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import paddle
from paddle import nn

from .. import _check
from .._types import BoundaryGrad
from ..functional.deform_conv2d import deform_conv2d

_OP = "DeformConv2D"


class DeformConv2D(nn.Layer):
    """Deformable convolution with its own weight and bias; offsets and masks come from the caller.

    The parameters, their shapes, names and initial values are those of
    paddle.vision.ops.DeformConv2D: state dicts fit both ways.

    Args:
        in_channels: C, channels of the input.
        out_channels: O, channels of the output.
        kernel_size: One integer or [height, width].
        stride: One integer or [height, width], in pixels.
        padding: One integer, [height, width] or [top, bottom, left, right], in pixels.
        dilation: One integer or [height, width], in pixels.
        deformable_groups: Groups of channels with offsets of their own; a divisor of C.
        groups: Groups of the convolution; a divisor of C and of O.
        weight_attr: Attributes of the weight (paddle.ParamAttr), or None for normally distributed
            initial values with standard deviation ``(2 / (kh * kw * C)) ** 0.5``.
        bias_attr: Attributes of the bias; False for a layer without bias.
        boundary_grad: "paddle" or "torchvision", see `paddle_ops.deform_conv2d`.

    Raises:
        TypeError: A size is not an integer.
        ValueError: A size is less than 1, or a number of groups is not a divisor.

    Shape:
        x [N, C, H, W], offset [N, 2 * deformable_groups * kh * kw, out_h, out_w], mask
        [N, deformable_groups * kh * kw, out_h, out_w] or None; returns [N, O, out_h, out_w].

    Example:
        >>> import paddle
        >>> from paddle_ops.nn import DeformConv2D
        >>> layer = DeformConv2D(2, 4, 3, padding=1)
        >>> offset, mask = paddle.zeros([1, 18, 5, 6]), paddle.ones([1, 9, 5, 6])
        >>> list(layer(paddle.ones([1, 2, 5, 6]), offset, mask).shape)
        [1, 4, 5, 6]

    Source: Zhu et al., "Deformable ConvNets v2" (arXiv 1811.11168).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        deformable_groups: int = 1,
        groups: int = 1,
        weight_attr=None,
        bias_attr=None,
        boundary_grad: BoundaryGrad = "paddle",
    ):
        super().__init__()
        self._in_channels = _check.integer(_OP, "in_channels", in_channels, minimum=1)
        self._out_channels = _check.integer(_OP, "out_channels", out_channels, minimum=1)
        self._kernel_size = _check.pair(_OP, "kernel_size", kernel_size, minimum=1)
        for argument, divisor, size in (
            ("groups", groups, in_channels),
            ("groups", groups, out_channels),
            ("deformable_groups", deformable_groups, in_channels),
        ):
            if size % _check.integer(_OP, argument, divisor, minimum=1):
                _check.fail(_OP, argument, f"a divisor of the {size} channels", divisor)
        self._arguments = {
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "deformable_groups": deformable_groups,
            "groups": groups,
            "boundary_grad": boundary_grad,
        }
        fan_in = math.prod(self._kernel_size) * in_channels
        self.weight = self.create_parameter(
            shape=[out_channels, in_channels // groups, *self._kernel_size],
            attr=weight_attr,
            default_initializer=nn.initializer.Normal(0.0, (2.0 / fan_in) ** 0.5),
        )
        self.bias = self.create_parameter(shape=[out_channels], attr=bias_attr, is_bias=True)

    def forward(
        self, x: paddle.Tensor, offset: paddle.Tensor, mask: paddle.Tensor | None = None
    ) -> paddle.Tensor:
        """Return deform_conv2d of x at these offsets with the layer's weight and bias."""
        return deform_conv2d(x, offset, self.weight, self.bias, mask=mask, **self._arguments)

    if TYPE_CHECKING:

        def __call__(
            self, x: paddle.Tensor, offset: paddle.Tensor, mask: paddle.Tensor | None = None
        ) -> paddle.Tensor:
            """Return what forward does. Paddle's own takes and returns anything."""

    def extra_repr(self) -> str:
        """Return the arguments that repr shows."""
        named = {"kernel_size": self._kernel_size, **self._arguments}
        shown = ", ".join(f"{name}={value!r}" for name, value in named.items())
        return f"{self._in_channels}, {self._out_channels}, {shown}"

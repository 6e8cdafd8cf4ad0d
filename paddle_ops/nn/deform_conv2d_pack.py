"""Deformable convolutions that predict their own offsets, and take a plain convolution's place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import paddle
from paddle import nn

from .._types import BoundaryGrad
from .deform_conv2d import DeformConv2D


class DeformConv2DPack(DeformConv2D):
    """Deformable convolution v1 whose offsets a convolution of the same input predicts.

    offset = conv_offset(x); out = deform_conv2d(x, offset, weight, bias). `conv_offset` has the
    kernel, stride, padding and dilation of the layer itself. It starts at zero, so that the layer
    starts as a plain convolution.

    The state dict has `weight`, `bias` (if there is one), `conv_offset.weight` and
    `conv_offset.bias`, as mmcv's DeformConv2dPack; :mod:`paddle_ops.porting` loads those of others.

    Args:
        in_channels: C, channels of the input.
        out_channels: O, channels of the output.
        kernel_size: One integer or [height, width].
        stride: One integer or [height, width], in pixels. Default 1.
        padding: One integer, [height, width] or [top, bottom, left, right], in pixels. Default 0.
        dilation: One integer or [height, width], in pixels. Default 1.
        deformable_groups: Groups of channels with offsets of their own; a divisor of C. Default 1.
        groups: Groups of the convolution; a divisor of C and of O. Default 1.
        weight_attr: Attributes of the weight, see :class:`DeformConv2D`. Default None.
        bias_attr: Attributes of the bias; False for a layer without bias, which mmcv's always is.
            Default None.
        boundary_grad: "paddle" (default) or "torchvision", see `paddle_ops.deform_conv2d`.

    Raises:
        TypeError: A size is not an integer.
        ValueError: A size is less than 1, or a number of groups is not a divisor.

    Shape:
        x [N, C, H, W]; returns [N, O, out_h, out_w].

    Example:
        >>> import paddle
        >>> from paddle_ops.nn import DeformConv2DPack
        >>> layer = DeformConv2DPack(2, 4, 3, padding=1)
        >>> list(layer(paddle.ones([1, 2, 5, 6])).shape)
        [1, 4, 5, 6]

    Source: Dai et al., "Deformable Convolutional Networks" (arXiv 1703.06211); names and layout of
    mmcv.ops.DeformConv2dPack.
    """

    # How many numbers are predicted for each tap: y and x.
    _NUMBERS = 2

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
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, deformable_groups,
            groups, weight_attr, bias_attr, boundary_grad,
        )  # fmt: skip
        arguments = self._arguments
        self._taps = arguments["deformable_groups"] * math.prod(self._kernel_size)
        zero = paddle.ParamAttr(initializer=nn.initializer.Constant(0.0))
        self.conv_offset = nn.Conv2D(
            self._in_channels,
            self._NUMBERS * self._taps,
            self._kernel_size,
            stride=arguments["stride"],
            padding=arguments["padding"],
            dilation=arguments["dilation"],
            weight_attr=zero,
            bias_attr=zero,
        )

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return deform_conv2d of x at the offsets that x itself yields."""
        # Not super(): when Paddle 2.6 traces this method, it has no class to start from.
        return DeformConv2D.forward(self, x, self.conv_offset(x))

    if TYPE_CHECKING:

        def __call__(self, x: paddle.Tensor) -> paddle.Tensor:
            """Return what forward does. Paddle's own takes and returns anything."""


class ModulatedDeformConv2DPack(DeformConv2DPack):
    """Deformable convolution v2 whose offsets and mask a convolution of the same input predicts.

    offset, mask = split(conv_offset(x)); out = deform_conv2d(x, offset, weight, bias,
    mask=sigmoid(mask)). The first 2 * deformable_groups * kh * kw channels are the offsets, in the
    order of `paddle_ops.deform_conv2d`, and the others the mask: what mmcv and detectron2 write as
    o1, o2, mask = chunk(3), offset = cat(o1, o2). `conv_offset` starts at zero, so that the layer
    starts as half of a plain convolution: all masks are 0.5.

    The state dict has the names of mmcv's ModulatedDeformConv2dPack.

    Args:
        in_channels: C, channels of the input.
        out_channels: O, channels of the output.
        kernel_size: One integer or [height, width].
        stride: One integer or [height, width], in pixels. Default 1.
        padding: One integer, [height, width] or [top, bottom, left, right], in pixels. Default 0.
        dilation: One integer or [height, width], in pixels. Default 1.
        deformable_groups: Groups of channels with offsets and masks of their own; a divisor of C.
            Default 1.
        groups: Groups of the convolution; a divisor of C and of O. Default 1.
        weight_attr: Attributes of the weight, see :class:`DeformConv2D`. Default None.
        bias_attr: Attributes of the bias; False for a layer without bias. Default None.
        boundary_grad: "paddle" (default) or "torchvision", see `paddle_ops.deform_conv2d`.

    Raises:
        TypeError: A size is not an integer.
        ValueError: A size is less than 1, or a number of groups is not a divisor.

    Shape:
        x [N, C, H, W]; returns [N, O, out_h, out_w].

    Example:
        >>> import paddle
        >>> from paddle_ops.nn import ModulatedDeformConv2DPack
        >>> layer = ModulatedDeformConv2DPack(2, 4, 3, padding=1)
        >>> list(layer(paddle.ones([1, 2, 5, 6])).shape)
        [1, 4, 5, 6]

    Source: Zhu et al., "Deformable ConvNets v2" (arXiv 1811.11168); names and layout of
    mmcv.ops.ModulatedDeformConv2dPack.
    """

    # The mask, too.
    _NUMBERS = 3

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return deform_conv2d of x at the offsets and with the mask that x itself yields."""
        offset, mask = paddle.split(self.conv_offset(x), [2 * self._taps, self._taps], axis=1)
        return DeformConv2D.forward(self, x, offset, nn.functional.sigmoid(mask))

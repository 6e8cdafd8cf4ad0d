"""Weights, offsets and padding of TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence

import paddle

from .. import _check


def offsets_from_tensorflow(
    offset: paddle.Tensor, mask: paddle.Tensor | None = None
) -> tuple[paddle.Tensor, paddle.Tensor | None]:
    """Put the channels of channels-last offsets and masks first.

    The order of the channels is ours: for each tap in rows of the kernel, y and then x. That of
    TensorFlow Addons' DeformableConv2D is ours, too, and channels-first already. TensorLayer moves
    coordinates outside of the image to its border, which no deform_conv2d does.

    Args:
        offset: [N, out_h, out_w, 2 * deformable_groups * kh * kw]; any type.
        mask: [N, out_h, out_w, deformable_groups * kh * kw], or None (default).

    Returns:
        offset [N, 2 * deformable_groups * kh * kw, out_h, out_w], and mask
        [N, deformable_groups * kh * kw, out_h, out_w] or None.

    Raises:
        TypeError: An argument is not a tensor.
        ValueError: An argument has not 4 dimensions, or mask not half as many channels as offset.

    Example:
        >>> import paddle
        >>> from paddle_ops.porting import offsets_from_tensorflow
        >>> offset, mask = offsets_from_tensorflow(paddle.zeros([2, 5, 6, 18]))
        >>> list(offset.shape)
        [2, 18, 5, 6]

    Source: DeformableConv2d of TensorLayer, DeformableConv2D of TensorFlow Addons.
    """
    op = "offsets_from_tensorflow"
    _check.tensor(op, "offset", offset)
    _check.rank(op, "offset", offset, 4, "[N, out_h, out_w, 2 * deformable_groups * kh * kw]")
    if offset.shape[3] % 2:
        _check.fail(op, "offset", "an even number of channels", offset.shape[3])
    if mask is not None:
        _check.tensor(op, "mask", mask)
        layout = "[N, out_h, out_w, deformable_groups * kh * kw]"
        _check.shape(op, "mask", mask, [*offset.shape[:3], offset.shape[3] // 2], layout)
        mask = paddle.transpose(mask, [0, 3, 1, 2])
    return paddle.transpose(offset, [0, 3, 1, 2]), mask


def weight_from_tensorflow(weight: paddle.Tensor) -> paddle.Tensor:
    """Reorder the dimensions of a weight that has the output channels last.

    Args:
        weight: [kh, kw, C / groups, O]; any type.

    Returns:
        [O, C / groups, kh, kw].

    Raises:
        TypeError: ``weight`` is not a tensor.
        ValueError: It has not 4 dimensions.

    Example:
        >>> import paddle
        >>> from paddle_ops.porting import weight_from_tensorflow
        >>> list(weight_from_tensorflow(paddle.zeros([3, 2, 4, 8])).shape)
        [8, 4, 3, 2]

    Source: tf.nn.conv2d.
    """
    _check.tensor("weight_from_tensorflow", "weight", weight)
    _check.rank("weight_from_tensorflow", "weight", weight, 4, "[kh, kw, C / groups, O]")
    return paddle.transpose(weight, [3, 2, 0, 1])


def same_padding(
    size: Sequence[int],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
) -> list[int]:
    """Return the padding that TensorFlow calls "SAME", for an image of this size.

    The output has size / stride pixels, rounded up; where the sum of both sides is odd, the lower
    and the right side get the larger half.

    Args:
        size: [H, W] of the image.
        kernel_size: One integer or [height, width].
        stride: One integer or [height, width]. Default 1.
        dilation: One integer or [height, width]. Default 1.

    Returns:
        [top, bottom, left, right], as `paddle_ops.deform_conv2d` takes it.

    Raises:
        TypeError: A number is not an integer.
        ValueError: A number is less than 1.

    Example:
        >>> from paddle_ops.porting import same_padding
        >>> same_padding([5, 6], 3, stride=2)
        [1, 1, 0, 1]

    Source: tf.nn.convolution.
    """
    op = "same_padding"
    sides = []
    for length, kernel, step, spread in zip(
        _check.pair(op, "size", size, minimum=1),
        _check.pair(op, "kernel_size", kernel_size, minimum=1),
        _check.pair(op, "stride", stride, minimum=1),
        _check.pair(op, "dilation", dilation, minimum=1),
    ):
        outputs = -(-length // step)
        total = max((outputs - 1) * step + spread * (kernel - 1) + 1 - length, 0)
        sides += [total // 2, total - total // 2]
    return sides

"""Offsets and masks of others in the channel order of `paddle_ops.deform_conv2d`.

Ours: for each deformable group, for each tap in rows of the kernel, y and then x; the mask alike,
with one number for each tap; channels first. Each conversion picks channels, so that gradients pass
through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import paddle

from .. import _check
from .._types import OffsetFormat


def offsets_from_ascend(
    offset: paddle.Tensor, data_format: OffsetFormat = "NCHW"
) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Split and reorder the one tensor that Ascend's operators take.

    Theirs has all x offsets (of all deformable groups and taps), then all y offsets, then all
    masks.

    Args:
        offset: [N, 3 * deformable_groups * kh * kw, out_h, out_w], or for "NHWC" with the channels
            last; any floating type.
        data_format: "NCHW" (default) or "NHWC".

    Returns:
        offset [N, 2 * deformable_groups * kh * kw, out_h, out_w] and mask
        [N, deformable_groups * kh * kw, out_h, out_w], with the type of the input.

    Raises:
        TypeError: ``offset`` is not a tensor.
        ValueError: It has not 4 dimensions or not a multiple of 3 channels; ``data_format`` is
            unknown.

    Example:
        >>> import paddle
        >>> from paddle_ops.porting import offsets_from_ascend
        >>> theirs = paddle.to_tensor([10.0, 11.0, 20.0, 21.0, 0.5, 0.6]).reshape([1, 6, 1, 1])
        >>> offset, mask = offsets_from_ascend(theirs)  # two taps: x 10, 11; y 20, 21
        >>> offset.flatten().tolist()
        [20.0, 10.0, 21.0, 11.0]

    Source: torch_npu.npu_deformable_conv2d, CANN's DeformableOffsets; the order as in
    ModulatedDeformConv2dFunction._calculate_sort_index of mmcv.
    """
    op = "offsets_from_ascend"
    _check.tensor(op, "offset", offset)
    _check.rank(op, "offset", offset, 4, data_format)
    _check.choice(op, "data_format", data_format, ("NCHW", "NHWC"))
    if data_format == "NCHW":
        offset = paddle.transpose(offset, [0, 2, 3, 1])
    channels = offset.shape[3]
    if channels % 3:
        _check.fail(op, "offset", "a multiple of 3 channels", channels)
    taps = channels // 3
    pairs = [channel for tap in range(taps) for channel in (taps + tap, tap)]
    return _pick(offset, pairs), _pick(offset, list(range(2 * taps, 3 * taps)))


def offsets_from_dcnv3(
    offset: paddle.Tensor,
    mask: paddle.Tensor,
    kernel_size: int | Sequence[int],
    group: int = 1,
    dilation: int | Sequence[int] = 1,
    offset_scale: float = 1.0,
    remove_center: bool = False,
) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Reorder the offsets and masks of DCNv3 (InternImage).

    Theirs are channels-last; for each group, for each point in *columns* of the kernel, x and then
    y. ``offset_scale`` multiplies the offsets and the kernel's own extent about its center; without
    the center (``remove_center``) there is one point less, which becomes a tap with mask 0.

    DCNv3 has no weight: it sums each channel's samples. So
    ``deform_conv2d(x, offset, paddle.ones([C, 1, kh, kw]), groups=C, deformable_groups=group,
    mask=mask)`` of the channels-first x is its output, with its stride, padding and dilation.

    Args:
        offset: [N, out_h, out_w, group * points * 2]; points is kh * kw, or one less without the
            center. Any floating type.
        mask: [N, out_h, out_w, group * points], after the softmax.
        kernel_size: One integer or [height, width].
        group: Groups of channels with offsets of their own. Default 1.
        dilation: One integer or [height, width]. Default 1.
        offset_scale: Default 1.
        remove_center: Whether the center has no point. Default False.

    Returns:
        offset [N, 2 * group * kh * kw, out_h, out_w] and mask [N, group * kh * kw, out_h, out_w].

    Raises:
        TypeError: An argument is not a tensor or not an integer.
        ValueError: A shape does not fit, or ``remove_center`` comes with an even kernel.

    Example:
        >>> import paddle
        >>> from paddle_ops.porting import offsets_from_dcnv3
        >>> theirs = paddle.arange(8.0).reshape([1, 1, 1, 8])  # x 0, y 1 of the upper left point
        >>> offset, mask = offsets_from_dcnv3(theirs, paddle.ones([1, 1, 1, 4]), 2)
        >>> offset.flatten().tolist()
        [1.0, 0.0, 5.0, 4.0, 3.0, 2.0, 7.0, 6.0]

    Source: Wang et al., "InternImage" (arXiv 2211.05778); ops_dcnv3 in github.com/OpenGVLab/
    InternImage, dcnv3_im2col_gpu_kernel.
    """
    op = "offsets_from_dcnv3"
    kernel, points = _points(op, kernel_size, group, remove_center)
    for argument, value, numbers in (("offset", offset, 2), ("mask", mask, 1)):
        _check.tensor(op, argument, value)
        channels = numbers * group * len(points)
        _check.shape(op, argument, value, [None, None, None, channels], "[N, out_h, out_w, ...]")
    position = {point: number for number, point in enumerate(points)}
    taps = [
        None if point not in position else g * len(points) + position[point]
        for g, point in _taps(group, kernel)
    ]
    pairs = [None if tap is None else 2 * tap + xy for tap in taps for xy in (1, 0)]
    dilation = _check.pair(op, "dilation", dilation, minimum=1)
    scaled = _scaled(_pick(offset, pairs), kernel, group, dilation, offset_scale)
    return scaled, _pick(mask, taps)


def offsets_from_dcnv4(
    offset_mask: paddle.Tensor,
    kernel_size: int | Sequence[int],
    group: int = 1,
    dilation: int | Sequence[int] = 1,
    offset_scale: float = 1.0,
    remove_center: bool = False,
) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Split and reorder the one tensor of DCNv4.

    As :func:`offsets_from_dcnv3`, but each group has its 2 * points offsets and then its masks
    (which no softmax has normalized), and zeros may fill the channels up to a multiple of 8.

    Args:
        offset_mask: [N, out_h, out_w, channels] with at least group * points * 3 channels; points
            is kh * kw, or one less without the center. Any floating type.
        kernel_size: One integer or [height, width].
        group: Groups of channels with offsets of their own. Default 1.
        dilation: One integer or [height, width]. Default 1.
        offset_scale: Default 1.
        remove_center: Whether the center has no point. Default False.

    Returns:
        offset [N, 2 * group * kh * kw, out_h, out_w] and mask [N, group * kh * kw, out_h, out_w].

    Raises:
        TypeError: An argument is not a tensor or not an integer.
        ValueError: A shape does not fit, or ``remove_center`` comes with an even kernel.

    Example:
        >>> import paddle
        >>> from paddle_ops.porting import offsets_from_dcnv4
        >>> theirs = paddle.to_tensor([0.25, 0.5, 0.75]).reshape([1, 1, 1, 3])  # x, y, mask
        >>> offset, mask = offsets_from_dcnv4(theirs, 1)
        >>> offset.flatten().tolist(), mask.flatten().tolist()
        ([0.5, 0.25], [0.75])

    Source: Xiong et al., "Efficient Deformable ConvNets" (arXiv 2401.06197); DCNv4_op in
    github.com/OpenGVLab/DCNv4, forward_kernel_dcn.
    """
    op = "offsets_from_dcnv4"
    _check.tensor(op, "offset_mask", offset_mask)
    _check.rank(op, "offset_mask", offset_mask, 4, "[N, out_h, out_w, channels]")
    _, points = _points(op, kernel_size, group, remove_center)
    length, channels = 3 * len(points), offset_mask.shape[3]
    if channels < group * length:
        _check.fail(op, "offset_mask", f"at least {group * length} channels", channels)
    starts = [g * length for g in range(group)]
    offsets = [start + i for start in starts for i in range(2 * len(points))]
    masks = [start + i for start in starts for i in range(2 * len(points), length)]
    return offsets_from_dcnv3(
        paddle.index_select(offset_mask, paddle.to_tensor(offsets), axis=3),
        paddle.index_select(offset_mask, paddle.to_tensor(masks), axis=3),
        kernel_size,
        group,
        dilation,
        offset_scale,
        remove_center,
    )


def _points(
    op: str, kernel_size: int | Sequence[int], group: int, remove_center: bool
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return [kh, kw], and (row, column) of each point in DCNv3's order."""
    kernel = _check.pair(op, "kernel_size", kernel_size, minimum=1)
    _check.integer(op, "group", group, minimum=1)
    points = [(row, column) for column in range(kernel[1]) for row in range(kernel[0])]
    if _check.flag(op, "remove_center", remove_center):
        if not all(size % 2 for size in kernel):
            _check.fail(op, "kernel_size", "odd sizes, which have a center", kernel)
        points.remove((kernel[0] // 2, kernel[1] // 2))
    return kernel, points


def _taps(group: int, kernel: list[int]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the group, and row and column in the kernel, of each tap in our order."""
    for g in range(group):
        for row in range(kernel[0]):
            for column in range(kernel[1]):
                yield g, (row, column)


def _pick(tensor: paddle.Tensor, channels: list[int | None]) -> paddle.Tensor:
    """Return some channels of a channels-last tensor, channels first; None stands for zeros."""
    if None in channels:
        zero = paddle.zeros_like(tensor[:, :, :, :1])
        tensor = paddle.concat([tensor, zero], axis=3)
        channels = [tensor.shape[3] - 1 if channel is None else channel for channel in channels]
    picked = paddle.index_select(tensor, paddle.to_tensor(channels), axis=3)
    return paddle.transpose(picked, [0, 3, 1, 2])


def _scaled(
    offset: paddle.Tensor, kernel: list[int], group: int, dilation: list[int], scale: float
) -> paddle.Tensor:
    """Return offsets, in our order, from a kernel that is scaled about its center with them."""
    if scale == 1:
        return offset
    # A tap at k * dilation moves to center + (k * dilation - center) * scale.
    shifts = [
        (scale - 1) * (k * step - step * (size - 1) // 2)
        for _, point in _taps(group, kernel)
        for k, step, size in zip(point, dilation, kernel)
    ]
    return scale * offset + paddle.to_tensor(shifts, dtype=offset.dtype).reshape([1, -1, 1, 1])

"""Pictures: where a deformable layer samples, and the losses with their gradients.

Needs matplotlib: pip install 'paddle-ops[viz]'. Everything is drawn on Axes that the caller gives;
nothing opens a window or writes a file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import paddle
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import _check

_OP = "viz.sampling_locations"
_COLOURS = "coolwarm"  # white is a mask of 1
_LEFT = "#00a0ff"  # seen on black and on white


def sampling_locations(
    ax: Axes,
    image: np.ndarray | paddle.Tensor,
    offset: paddle.Tensor,
    place: Sequence[int],
    mask: paddle.Tensor | None = None,
    *,
    kernel_size: int | Sequence[int] = 3,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    deformable_group: int = 0,
    index: int = 0,
) -> np.ndarray:
    """Draw the taps of one output position of a deformable convolution over an image.

    A filled dot is where a tap samples, coloured by its mask (blue 0, white 1, red 2); the circle
    that a line leads from is where a plain convolution would sample. The cross is the middle of the
    kernel.

    Args:
        ax: Where to draw (matplotlib); pixel centres lie at integer coordinates.
        image: [H, W] or [H, W, 3] for imshow, of the size of the layer's input.
        offset: [N, 2 * deformable_groups * kh * kw, out_h, out_w], as given to deform_conv2d.
        place: (row, column) of the output position.
        mask: [N, deformable_groups * kh * kw, out_h, out_w], or None: all 1.
        kernel_size: One integer or [height, width].
        stride: One integer or [height, width], in pixels.
        padding: One integer, [height, width] or [top, bottom, left, right], in pixels.
        dilation: One integer or [height, width], in pixels.
        deformable_group: Whose taps to draw.
        index: Of the image in the batch.

    Returns:
        An array [kh * kw, 2] with (y, x) of each tap in the image, in pixels.

    Raises:
        ValueError: The offsets have no such group, image or position, or another kernel's channels.

    Example:
        >>> import numpy as np, paddle
        >>> from matplotlib.figure import Figure
        >>> from paddle_ops import viz
        >>> ax = Figure().subplots()
        >>> offset = paddle.full([1, 2, 4, 6], 0.5)
        >>> viz.sampling_locations(ax, np.zeros([4, 6]), offset, (1, 2), kernel_size=1).tolist()
        [[1.5, 2.5]]

    Source: the sampling positions of Zhu et al., "Deformable ConvNets v2" (arXiv 1811.11168).
    """
    kh, kw = _check.pair(_OP, "kernel_size", kernel_size, minimum=1)
    grid = _grid(place, (kh, kw), stride, padding, dilation)
    shift = _taps("offset", offset, index, deformable_group, 2 * kh * kw, place).reshape(-1, 2)
    shade = np.ones(kh * kw)
    if mask is not None:
        shade = _taps("mask", mask, index, deformable_group, kh * kw, place)
    taps = grid + shift
    ax.imshow(np.asarray(image), cmap="gray")
    for (y, x), (to_y, to_x) in zip(grid, taps):
        ax.plot([x, to_x], [y, to_y], color=_LEFT, linewidth=0.8)
    ax.scatter(grid[:, 1], grid[:, 0], s=16, facecolors="none", edgecolors=_LEFT)
    look = {"cmap": _COLOURS, "vmin": 0, "vmax": 2, "edgecolors": "black", "linewidths": 0.5}
    ax.scatter(taps[:, 1], taps[:, 0], s=44, c=shade, zorder=3, **look)
    middle = grid.mean(axis=0)
    ax.plot(middle[1], middle[0], "+", color="#39ff14", markersize=11, markeredgewidth=2, zorder=4)
    return taps


def _grid(place, kernel, stride, padding, dilation) -> np.ndarray:
    """Return (y, x) of each tap without its offset."""
    stride = _check.pair(_OP, "stride", stride, minimum=1)
    dilation = _check.pair(_OP, "dilation", dilation, minimum=1)
    top, _, left, _ = _check.paddings(_OP, "padding", padding)
    start = np.array(place) * stride - (top, left)
    taps = np.stack(np.meshgrid(*map(np.arange, kernel), indexing="ij"), axis=-1).reshape(-1, 2)
    return start + taps * dilation


def _taps(argument, tensor, index, group, channels, place) -> np.ndarray:
    """Return one position's numbers of one deformable group."""
    array = np.asarray(tensor.astype("float32"))
    expected = f"[N, deformable_groups * {channels}, out_h, out_w]"
    if array.ndim != 4 or array.shape[1] % channels:
        _check.fail(_OP, argument, expected, list(array.shape))
    wanted = (index, group, *place)
    sizes = (array.shape[0], array.shape[1] // channels, *array.shape[2:])
    if not all(0 <= number < size for number, size in zip(wanted, sizes)):
        text = f"image, deformable group, row and column within {list(sizes)}"
        _check.fail(_OP, argument, text, list(wanted))
    return array[index, group * channels : (group + 1) * channels, place[0], place[1]]


def pos_weight_forms(figure: Figure, pos_weight: float = 3.0, label: float = 1.0) -> None:
    """Draw loss and gradient of sigmoid cross entropy over x, for both meanings of pos_weight.

    Args:
        figure: Where to draw (matplotlib), side by side: the losses, and their gradients in x.
        pos_weight: The weight.
        label: The label, in [0, 1].

    Example:
        >>> from matplotlib.figure import Figure
        >>> from paddle_ops import viz
        >>> figure = Figure(figsize=(9, 3.5), layout="constrained")
        >>> viz.pos_weight_forms(figure)
        >>> [ax.get_ylabel() for ax in figure.axes]
        ['loss', 'gradient in x']

    Source: the forms are those of `paddle_ops.sigmoid_cross_entropy_with_logits`.
    """
    from .functional import sigmoid_cross_entropy_with_logits

    losses, gradients = figure.subplots(1, 2)
    values = np.linspace(-6, 6, 1201, dtype="float32")
    whole = paddle.full([len(values)], label)
    weight = paddle.full([len(values)], float(pos_weight))
    for name, w, form in (
        ("without pos_weight", None, "log1p"),
        ('"log1p" (default, Paddle 2.6)', weight, "log1p"),
        ('"softplus" (Paddle 3, PyTorch)', weight, "softplus"),
    ):
        x = paddle.to_tensor(values, stop_gradient=False)
        loss = sigmoid_cross_entropy_with_logits(x, whole, w, pos_weight_form=form)
        losses.plot(values, loss.numpy(), label=name)
        gradients.plot(values, paddle.grad([loss.sum()], [x])[0].numpy(), label=name)
    for ax, what in ((losses, "loss"), (gradients, "gradient in x")):
        ax.set(xlabel="x", ylabel=what)
        ax.grid(alpha=0.3)
    losses.set_title(f"label {label:g}, pos_weight {pos_weight:g}")
    losses.legend(fontsize="small")

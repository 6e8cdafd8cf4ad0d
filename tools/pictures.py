"""Draws the pictures of README.md and docs/ anew: python -m tools.pictures."""

import math
from pathlib import Path

import numpy as np
import paddle
from matplotlib.figure import Figure

from paddle_ops import viz

DOCS = Path(__file__).resolve().parents[1] / "docs"


def turned_offsets(angle: float, along: float, height: int, width: int) -> paddle.Tensor:
    """Offsets that turn a 3 x 3 kernel by an angle and stretch its rows."""
    y, x = np.mgrid[-1:2, -1:2]
    row = along * x[..., None] * np.array([-math.sin(angle), math.cos(angle)])
    column = y[..., None] * np.array([math.cos(angle), math.sin(angle)])
    shift = row + column - np.stack([y, x], axis=-1)
    taps = shift.reshape(1, 18, 1, 1).astype("float32")
    return paddle.to_tensor(np.tile(taps, (1, 1, height, width)))


def bar(angle: float, height: int, width: int) -> np.ndarray:
    """An image of a bright bar through the middle."""
    y, x = np.mgrid[:height, :width] - np.array([height // 2, width // 2])[:, None, None]
    across = x * math.sin(angle) + y * math.cos(angle)
    along = x * math.cos(angle) - y * math.sin(angle)
    return np.exp(-((across / 2.2) ** 2) - (along / 9) ** 4)


def draw_sampling(path: Path) -> None:
    """One position with offsets of 0, and with offsets that follow what is in the image."""
    height, width, angle = 21, 31, math.radians(35)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    image = bar(angle, height, width)
    mask = paddle.ones([1, 9, height, width])
    mask[:, [0, 1, 2, 6, 7, 8]] = 0.4
    for ax, (turn, stretch, title) in zip(
        figure.subplots(1, 2, sharey=True),
        ((0.0, 1.0, "offsets 0, masks 1"), (angle, 4.0, "offsets that follow the bar")),
    ):
        offset = turned_offsets(turn, stretch, height, width)
        place = (height // 2, width // 2)
        viz.sampling_locations(ax, image, offset, place, mask if turn else None, padding=1)
        ax.set(title=title, xlabel="x / pixels")
    figure.axes[0].set_ylabel("y / pixels")
    figure.savefig(path, dpi=110)


def draw_forms(path: Path) -> None:
    """Both meanings of pos_weight."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    viz.pos_weight_forms(figure)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw_sampling(DOCS / "sampling.png")
    draw_forms(DOCS / "pos_weight.png")

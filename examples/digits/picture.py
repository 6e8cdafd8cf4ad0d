"""The picture: where the learned taps sample, and how training went."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import paddle
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from .model import STEP, Network
from .scenes import CLASSES, HEIGHT, WIDTH, Scenes
from .train import BATCH, Scores, as_input

_SHOWN = 3  # scenes
_COLOURS = "coolwarm"  # white is a mask of 1
_BLUE, _ORANGE, _PLACE = "#1f77b4", "#ff7f0e", "#39ff14"
_GRID = np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1], indexing="ij"), axis=-1).reshape(-1, 2)


def draw(
    path: Path,
    network: Network,
    scenes: Scenes,
    curves: dict[str, list[float]],
    scores: dict[str, Scores],
    heading: str,
) -> None:
    """Write the picture; curves and scores are those of the deformable network and its twin."""
    figure = Figure(figsize=(15, 11.5), layout="constrained")
    figure.suptitle(heading, fontsize=15)
    maps, bottom = figure.subfigures(2, 1, height_ratios=[2.1, 1])
    axes = maps.subplots(2, _SHOWN, sharex=True, sharey=True)
    _draw_taps(axes, network, scenes)
    _add_keys(maps, axes)
    left, right = bottom.subplots(1, 2)
    _draw_curves(left, curves)
    _draw_scores(right, scores)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


@paddle.no_grad()
def _draw_taps(axes: np.ndarray, network: Network, scenes: Scenes) -> None:
    """Show in each column a scene, in each row a deformable layer's taps at the places that count:
    those that speak most for the digits that the scene contains.
    """
    network.eval()
    images = as_input(scenes.images[:_SHOWN])
    evidence = network.places(images).numpy()
    logits = network(images).numpy()
    for row, (offset, mask) in enumerate(network.taps(images)):
        for column in range(_SHOWN):
            ax = axes[row, column]
            ax.imshow(scenes.images[column, 0], cmap="gray", vmin=0, vmax=400)
            for digit in np.flatnonzero(scenes.labels[column]):
                place = np.unravel_index(evidence[column, digit].argmax(), evidence.shape[2:])
                here = (column, slice(None), *place)
                shift = offset.numpy()[here].reshape(-1, 2)
                _draw_place(ax, np.array(place), shift, mask.numpy()[here], str(digit))
            ax.set(xlim=(-4, WIDTH + 3), ylim=(HEIGHT + 3, -4), facecolor="#202020")
            if column == 0:
                ax.set_ylabel(f"{('first', 'second')[row]} deformable layer\ny / pixels")
            if row == 0:
                ax.set_title(_caption(scenes.labels[column], logits[column]))
            else:
                ax.set_xlabel("x / pixels")


def _draw_place(
    ax: Axes, place: np.ndarray, shift: np.ndarray, mask: np.ndarray, name: str
) -> None:
    """Draw the nine taps of one output position, and the grid that they left."""
    centre = place[::-1] * STEP
    grid = (place + _GRID) * STEP
    taps = grid + shift * STEP
    for start, end in zip(grid, taps):
        ax.plot(*zip(start[::-1], end[::-1]), color="white", alpha=0.35, linewidth=0.8)
    ax.scatter(grid[:, 1], grid[:, 0], s=14, facecolors="none", edgecolors="white", alpha=0.5)
    ax.scatter(
        taps[:, 1],
        taps[:, 0],
        s=42,
        c=mask,
        cmap=_COLOURS,
        vmin=0,
        vmax=2,
        edgecolors="black",
        linewidths=0.5,
        zorder=3,
    )
    ax.annotate(
        name,
        centre,
        (7, 6),
        textcoords="offset points",
        color=_PLACE,
        fontsize=13,
        weight="bold",
        path_effects=[withStroke(linewidth=3, foreground="black")],
        zorder=5,
    )
    ax.plot(*centre, "+", color=_PLACE, markersize=11, markeredgewidth=2, zorder=4)


def _caption(label: np.ndarray, logits: np.ndarray) -> str:
    there, seen = (", ".join(map(str, np.flatnonzero(v > 0))) or "none" for v in (label, logits))
    return f"contains {there}; network says {seen}"


def _add_keys(figure: SubFigure, axes: np.ndarray) -> None:
    """Explain colours and markers."""
    colours = ScalarMappable(Normalize(0, 2), _COLOURS)
    figure.colorbar(colours, ax=axes, shrink=0.8, label="mask of the tap (1: plain convolution)")
    dot = {"linestyle": "none", "marker": "o", "markeredgecolor": "black"}
    figure.legend(
        handles=[
            Line2D(
                [],
                [],
                linestyle="none",
                marker="+",
                markersize=11,
                markeredgewidth=2,
                color="#1fb80a",
                label="output position that speaks most for a digit there",
            ),
            Line2D(
                [],
                [],
                markerfacecolor=colormaps[_COLOURS](0.8),
                **dot,
                label="where a tap samples",
            ),
            Line2D(
                [],
                [],
                markerfacecolor="none",
                **{**dot, "markeredgecolor": "gray"},
                label="where a plain convolution would",
            ),
        ],
        loc="outside lower center",
        ncols=3,
    )


def _draw_curves(ax: Axes, curves: dict[str, list[float]]) -> None:
    for (name, losses), colour in zip(curves.items(), (_ORANGE, _BLUE)):
        window = max(1, len(losses) // 40)
        smooth = np.convolve(losses, np.ones(window) / window, mode="valid")
        seen = (np.arange(len(smooth)) + window) * BATCH
        ax.plot(np.arange(1, len(losses) + 1) * BATCH, losses, color=colour, alpha=0.15)
        ax.plot(seen, smooth, color=colour, label=f"{name} (mean of {window} batches)")
    ax.set(
        xlabel="training scenes seen",
        ylabel="BCE-with-logits loss",
        ylim=(0, None),
        title="Training loss",
    )
    ax.grid(alpha=0.3)
    ax.legend()


def _draw_scores(ax: Axes, scores: dict[str, Scores]) -> None:
    """Show how well each digit is found: points, for the axis does not start at 0."""
    digits = np.arange(CLASSES)
    ax.vlines(digits, *(result.precision for result in scores.values()), color="lightgray")
    for (name, result), colour in zip(scores.items(), (_ORANGE, _BLUE)):
        mean = f"{name} (mean {result.precision.mean():.3f})"
        ax.plot(digits, result.precision, "o", color=colour, markersize=9, label=mean)
    ax.set(xlabel="digit", ylabel="average precision", xticks=digits)
    ax.set_title("Test scenes, digit by digit")
    ax.grid(alpha=0.3, axis="y")
    ax.legend()

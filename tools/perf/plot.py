"""Draws measurements: how many times as long as this package the others take."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

import numpy as np

from tools.perf.cases import FORWARD
from tools.perf.measure import Measurement
from tools.perf.table import environment, providers_of


def plot(measurements: Sequence[Measurement], file: Path) -> None:
    """Write a PNG of ratios, a panel for each direction, on a logarithmic axis.

    Args:
        measurements: what was measured, at least one.
        file: where to write.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    base, *others = providers_of(measurements)
    directions = list(dict.fromkeys(m.direction for m in measurements))
    figure, panels = pyplot.subplots(
        1, len(directions), figsize=(7 * len(directions), 9), squeeze=False, sharex=True
    )
    colours = dict(zip(others, pyplot.get_cmap("tab10").colors))
    for panel, direction in zip(panels[0], directions):
        rows = [m for m in measurements if m.direction == direction and base in m.samples]
        names = [name for name in others if any(name in m.samples for m in rows)]
        thickness = 0.85 / max(1, len(names))
        for place, name in enumerate(names):
            values = [m.ratio(name, base) if name in m.samples else np.nan for m in rows]
            at = np.arange(len(rows)) + (place - (len(names) - 1) / 2) * thickness
            panel.barh(at, np.subtract(values, 1), thickness, 1, color=colours[name], label=name)
        panel.set_yticks(range(len(rows)), [m.case.name for m in rows])
        panel.invert_yaxis()
        panel.set_xscale("log")
        panel.axvline(1, color="black", linewidth=1)
        panel.set_xlabel(f"time / time of {base} (right of 1: slower)")
        panel.set_title("forward" if direction == FORWARD else direction)
        panel.legend(loc="lower right")
    settings = environment(measurements)
    figure.suptitle(f"{settings['cpu']}, {settings['threads']} threads, {settings['dtype']}")
    figure.tight_layout()
    figure.savefig(file, dpi=110)

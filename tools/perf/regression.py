"""Ratios to Paddle's own operators that must not be lost. Generous: machines in CI are noisy."""

from __future__ import annotations

from typing import Sequence

from tools.perf.cases import FORWARD, FORWARD_BACKWARD
from tools.perf.measure import Measurement
from tools.perf.providers import Paddle, PaddleOps

# Paddle's time by ours; each is below half of what two quiet cores show.
LEAST = {
    ("S10", FORWARD): 8.0,
    ("S10", FORWARD_BACKWARD): 12.0,
    ("C2", FORWARD): 4.0,
    ("C2", FORWARD_BACKWARD): 10.0,
    ("E2", FORWARD): 0.4,
}
CASES = tuple(dict.fromkeys(case for case, _ in LEAST))


def regressions(measurements: Sequence[Measurement]) -> list[str]:
    """Return a line for each ratio below its least, and for each that was not measured."""
    found = []
    measured = {(m.case.name, m.direction): m for m in measurements}
    for (case, direction), least in LEAST.items():
        m = measured.get((case, direction))
        if m is None or not {Paddle.name, PaddleOps.name} <= set(m.samples):
            found.append(f"{case} {direction}: not measured")
        elif m.ratio(Paddle.name, PaddleOps.name) < least:
            ratio = m.ratio(Paddle.name, PaddleOps.name)
            found.append(f"{case} {direction}: {ratio:.2f} times as fast, expected {least}")
    return found

"""Shows measurements: text, Markdown, JSON, and the published table's layout."""

from __future__ import annotations

import math
import platform
from pathlib import Path
from typing import Any, Sequence

import numpy as np
from tabulate import tabulate

from tools.perf.cases import FORWARD, FORWARD_BACKWARD, SEED_TABLE
from tools.perf.measure import Measurement
from tools.perf.providers import PROVIDERS

TEXT, MARKDOWN = "simple", "github"
_NOTHING = "-"
_WRONG = "wrong"


def render(measurements: Sequence[Measurement], style: str = TEXT) -> str:
    """Return the table: a row for each case and direction, columns for each provider.

    Rates are those of the first provider, which all others are divided by.
    """
    names = providers_of(measurements)
    base = names[0]
    headers = ["case", "offsets", "direction", f"{base} ms", "GFLOP/s", "GB/s"]
    for name in names[1:]:
        headers += [f"{name} ms", f"{name} / {base}"]
    note = "Times: median (20th to 80th percentile). Ratios: median of the pairs of each round."
    if any(m.extra_bytes for m in measurements):
        headers += [f"{name} extra MB" for name in names]
        note += " Extra: peak memory of one call beyond its inputs and results."
    rows = [_row(m, names) for m in measurements]
    if any(m.extra_bytes for m in measurements):
        for row, m in zip(rows, measurements):
            row += [_megabytes(m, name) for name in names]
    return _tabulate(rows, headers, style) + footer(measurements, note)


def seed_table(measurements: Sequence[Measurement], style: str = TEXT) -> str:
    """Return C1, C2 and C3 as the published table has them: seconds, forward and backward."""
    names = providers_of(measurements)
    base, others = names[0], names[1:]
    medians = {
        (m.case.name, m.direction): {
            name: m.percentile(name, 50) for name in names if name in m.samples
        }
        for m in measurements
    }
    headers = [""]
    for direction in ("forward", "backward"):
        for name in (*others, base):
            headers.append(f"{direction} {name} s")
        headers += [f"{direction} {name} / {base}" for name in others]
    rows = []
    for case in SEED_TABLE:
        forward = medians.get((case, FORWARD), {})
        both = medians.get((case, FORWARD_BACKWARD), {})
        backward = {name: both[name] - forward[name] for name in both if name in forward}
        row = [case]
        for seconds in (forward, backward):
            row += [f"{seconds[n]:.4f}" if n in seconds else _NOTHING for n in (*others, base)]
            row += [
                _number(seconds[n] / seconds[base]) if {n, base} <= set(seconds) else _NOTHING
                for n in others
            ]
        rows.append(row)
    note = "Seconds: medians. Backward: forward+backward less forward. Ratios: of these numbers."
    return _tabulate(rows, headers, style) + footer(measurements, note)


def to_json(measurements: Sequence[Measurement]) -> dict[str, Any]:
    """Return everything that was measured, ready for json.dump."""
    base = providers_of(measurements)[0]
    return {
        "environment": environment(measurements),
        "measurements": [_record(m, base) for m in measurements],
    }


def footer(measurements: Sequence[Measurement], note: str) -> str:
    """Return what the numbers mean and what they depend on, and what went wrong."""
    lines = ["", note]
    for m in measurements:
        unchecked = [] if m.checked else ["not checked: no reference of this size"]
        lines += [f"{m.case.name} {m.direction}: {t}" for t in (*unchecked, *m.failures.values())]
    lines += [f"{key}: {value}" for key, value in environment(measurements).items()]
    return "\n".join(lines) + "\n"


def environment(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return versions, machine and settings."""
    settings = measurements[0].settings
    versions = [PROVIDERS[name].version() for name in providers_of(measurements)]
    return {
        "versions": ", ".join(dict.fromkeys([*versions, f"Python {platform.python_version()}"])),
        "cpu": cpu_model(),
        "threads": str(settings.threads),
        "dtype": settings.dtype,
    }


def cpu_model() -> str:
    """Return the processor's name as the system has it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def providers_of(measurements: Sequence[Measurement]) -> list[str]:
    """Return the providers that took part, in the registry's order."""
    seen = {name for m in measurements for name in (*m.samples, *m.failures)}
    return [name for name in PROVIDERS if name in seen]


def _row(m: Measurement, names: Sequence[str]) -> list[str]:
    base = names[0]
    offsets = m.settings.offsets if m.case.op == "deform_conv2d" else _NOTHING
    row = [m.case.name, offsets, m.direction, _time_cell(m, base)]
    timed = base in m.samples
    row.append(_number(m.gflop_per_s(base)) if timed else _NOTHING)
    row.append(_number(m.gb_per_s(base)) if timed else _NOTHING)
    for name in names[1:]:
        both = timed and name in m.samples
        row += [_time_cell(m, name), _number(m.ratio(name, base)) if both else _NOTHING]
    return row


def _time_cell(m: Measurement, name: str) -> str:
    if name in m.failures:
        return _WRONG
    if name not in m.samples:
        return _NOTHING
    median, low, high = (_number(m.percentile(name, q) * 1e3) for q in (50, 20, 80))
    return f"{median} ({low}–{high})"


def _megabytes(m: Measurement, name: str) -> str:
    return _number(m.extra_bytes[name] / 1e6) if name in m.extra_bytes else _NOTHING


def _record(m: Measurement, base: str) -> dict[str, Any]:
    return {
        "case": m.case.name,
        "origin": m.case.origin,
        "op": m.case.op,
        "direction": m.direction,
        "offsets": m.settings.offsets,
        "dtype": m.settings.dtype,
        "threads": m.settings.threads,
        "shapes": {**m.case.inputs(), "out": m.case.out},
        "bytes": m.case.bytes(m.direction, m.settings.dtype),
        "flops": m.case.flops(m.direction),
        "checked": m.checked,
        "failures": m.failures,
        "providers": {name: _timing(m, name, base) for name in m.samples},
    }


def _timing(m: Measurement, name: str, base: str) -> dict[str, Any]:
    return {
        "median_s": m.percentile(name, 50),
        "p20_s": m.percentile(name, 20),
        "p80_s": m.percentile(name, 80),
        "samples_s": [seconds for seconds in m.samples[name] if not math.isnan(seconds)],
        "gflop_per_s": m.gflop_per_s(name),
        "gb_per_s": m.gb_per_s(name),
        "ratio": m.ratio(name, base) if base in m.samples else None,
        "extra_bytes": m.extra_bytes.get(name),
    }


def _number(value: float) -> str:
    """Return three significant digits, without an exponent."""
    return np.format_float_positional(value, precision=3, fractional=False, trim="-")


def _tabulate(rows: list[list[str]], headers: list[str], style: str) -> str:
    # Numbers are formatted here already; tabulate would drop zeros at their ends.
    return tabulate(rows, headers, tablefmt=style, disable_numparse=True, stralign="right") + "\n"

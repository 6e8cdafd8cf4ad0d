"""The command line: python -m tools.perf --help."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Sequence

from tqdm import tqdm

from tools.perf import cases, plot, regression, table
from tools.perf.measure import Measurement, Settings, measure
from tools.perf.provider import Provider
from tools.perf.providers import BY_INDEX, PROVIDERS, Paddle, PaddleOps

# Chosen by --index, not by --provider.
_FORCED = tuple(name for name in BY_INDEX.values() if name != PaddleOps.name)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    root = argparse.ArgumentParser(
        prog="python -m tools.perf",
        description="Times the operators beside other libraries. Each result is checked first; "
        "a provider with wrong numbers is not timed and makes the exit status 1.",
    )
    add = root.add_argument
    add("--op", choices=cases.OPS, help="only the cases of one operator")
    huge = ", ".join(name for name, case in cases.CASES.items() if case.huge)
    add(
        "--case",
        nargs="+",
        metavar="NAME",
        choices=tuple(cases.CASES),
        help=f"of {', '.join(cases.CASES)}; default: all but {huge}",
    )
    add(
        "--provider",
        nargs="+",
        choices=[name for name in PROVIDERS if name not in _FORCED],
        help="default: all that are available",
    )
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    add("--dtype", choices=tuple(cases.ITEM_BYTES), default="float32")
    add("--offsets", nargs="+", choices=cases.OFFSETS, default=["normal"])
    add(
        "--index",
        nargs="+",
        choices=tuple(BY_INDEX),
        default=["auto"],
        help="width of this package's indices; int32 and int64 call the kernels on NumPy arrays",
    )
    add("--forward", action="store_true", help="without the backward")
    add("--repeat", type=int, default=15, metavar="N", help="the most rounds")
    add(
        "--seconds",
        type=float,
        default=3.0,
        metavar="S",
        help="time after which a provider sits out a case's further rounds",
    )
    add("--memory", action="store_true", help="also the peak beyond inputs and results of one call")
    add("--seed-table", action="store_true", help="C1, C2 and C3 in the published layout")
    add("--json", type=Path, metavar="FILE", help="write everything that was measured")
    add("--markdown", action="store_true", help="print Markdown")
    add("--plot", type=Path, metavar="FILE", help="draw the ratios as a PNG")
    add(
        "--check-regression",
        action="store_true",
        help="few cases, beside Paddle's own: exit status 1 if a ratio is far below what it was",
    )
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return the exit status."""
    root = parser()
    options = root.parse_args(arguments)
    if options.threads < 1 or options.repeat < 1:
        root.error("--threads and --repeat must be at least 1")
    chosen = _cases(options)
    providers = _providers(options, root)
    if not any(_can(provider, case, options.dtype) for provider in providers for case in chosen):
        root.error("none of these providers can compute any of these cases")
    measurements = _measure(options, chosen, providers)
    style = table.MARKDOWN if options.markdown else table.TEXT
    show = table.seed_table if options.seed_table else table.render
    print(show(measurements, style))
    if options.json:
        options.json.write_text(json.dumps(table.to_json(measurements), indent=1) + "\n")
    if options.plot:
        plot.plot(measurements, options.plot)
    lost = regression.regressions(measurements) if options.check_regression else []
    for line in lost:
        print(f"regression: {line}", file=sys.stderr)
    return 1 if lost or any(m.failures for m in measurements) else 0


def _cases(options: argparse.Namespace) -> list[cases.Case]:
    """Return the cases that the arguments name."""
    if options.case:
        names = options.case
    elif options.check_regression:
        names = regression.CASES
    elif options.seed_table:
        names = cases.SEED_TABLE
    else:
        names = [name for name, case in cases.CASES.items() if not case.huge]
    return [cases.CASES[name] for name in names if options.op in (None, cases.CASES[name].op)]


def _providers(options: argparse.Namespace, root: argparse.ArgumentParser) -> list[type[Provider]]:
    """Return the providers that the arguments name, in the registry's order."""
    if options.provider:
        names = set(options.provider)
    elif options.seed_table or options.check_regression:
        names = {PaddleOps.name, Paddle.name}
    else:
        names = {name for name in PROVIDERS if name not in _FORCED and PROVIDERS[name].available()}
    if PaddleOps.name in names:
        names = (names - {PaddleOps.name}) | {BY_INDEX[index] for index in options.index}
    chosen = [provider for name, provider in PROVIDERS.items() if name in names]
    for provider in chosen:
        if not provider.available():
            root.error(f"--provider {provider.name}: it cannot be imported here")
    return chosen


def _can(provider: type[Provider], case: cases.Case, dtype: str) -> bool:
    return any(provider.supports(case, direction, dtype) for direction in cases.DIRECTIONS)


def _measure(
    options: argparse.Namespace, chosen: list[cases.Case], providers: list[type[Provider]]
) -> list[Measurement]:
    """Measure all cases behind a progress bar."""
    directions = (cases.FORWARD,) if options.forward else cases.DIRECTIONS
    plan = [
        (case, offsets)
        for case in chosen
        for offsets in options.offsets
        # a case without offsets is measured once
        if "offset" in case.inputs() or offsets == options.offsets[0]
    ]
    measurements = []
    with tqdm(total=len(plan) * len(directions), unit="row", disable=None) as bar:
        for case, offsets in plan:
            settings = Settings(
                directions=directions,
                offsets=offsets,
                dtype=options.dtype,
                threads=options.threads,
                repeat=options.repeat,
                seconds=options.seconds,
                memory=options.memory,
            )
            for measurement in measure(case, providers, settings, bar.set_description):
                measurements.append(measurement)
                for failure in measurement.failures.values():
                    bar.write(f"{case.name} {measurement.direction}: {failure}", file=sys.stderr)
                bar.update()
    return measurements


if __name__ == "__main__":
    sys.exit(main())

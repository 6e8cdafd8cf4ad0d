"""The command line: python -m tools.gpu_check --help."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Sequence

from tabulate import tabulate
from tqdm import tqdm

from tools import kernels as cpu_kernels
from tools.gpu_check import build, check, timing
from tools.gpu_check.device import Torch
from tools.perf.cases import CASES, DIRECTIONS


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    root = argparse.ArgumentParser(prog="python -m tools.gpu_check", description=__doc__)
    add = root.add_argument
    add("--folder", type=Path, default=Path("build/gpu_check"), help="where to build")
    add("--json", type=Path, help="write all results there")
    add("--huge", action="store_true", help="also sizes beyond 2^31; the host needs 64 GiB")
    add("--no-timing", action="store_true", help="check only")
    return root


def plan(huge: bool) -> list[tuple[Any, str, dict[str, Any]]]:
    """Return what is checked: (case, dtype, options)."""
    chosen = [
        (case, dtype, options)
        for case in check.SMALL
        for dtype in check.DTYPES
        for options in check.variants(case)
    ]
    for case in CASES.values():
        if huge or not case.huge:
            chosen.append((case, "float32", {}))
    return chosen


def show(verdicts: Sequence[check.Verdict], rows: Sequence[dict[str, Any]]) -> str:
    """Return the failures and the table of times."""
    wrong = [v for v in verdicts if not v.right]
    lines = [f"{len(verdicts)} checks, {len(wrong)} wrong"]
    lines += [f"WRONG {v.case} {v.dtype} {v.options}: {v.errors}" for v in wrong]
    columns = ("warm_us", "cold_us", "gflop_per_s", "gb_per_s", "torchvision_ratio", "bound_us")
    table = [
        [row["case"], row["dtype"], way, *(row[way].get(column) for column in columns)]
        for row in rows
        for way in DIRECTIONS
    ]
    headers = ["case", "dtype", "direction", *columns]
    return "\n".join([*lines, tabulate(table, headers, tablefmt="github", floatfmt=".4g")])


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, check, time; return 1 when anything is wrong."""
    options = parser().parse_args(arguments)
    device = Torch()
    gpu = build.load(build.build(options.folder / "gpu"))
    cpu = build.load(cpu_kernels.build(options.folder / "cpu"))
    verdicts = [
        check.verify(case, dtype, how, gpu, cpu, device)
        for case, dtype, how in tqdm(plan(options.huge), unit="check", disable=None)
    ]
    timed = [] if options.no_timing else [c for c in CASES.values() if not c.huge]
    rows = [
        timing.time_case(case, dtype, gpu, device)
        for case in tqdm(timed, unit="case", disable=None)
        for dtype in ("float32", "float16")
    ]
    print(show(verdicts, rows))
    if options.json:
        checks = [{**vars(v), "right": v.right} for v in verdicts]
        text = json.dumps({"gpu": device.name, "checks": checks, "times": rows}, indent=1)
        options.json.write_text(text + "\n")
    return 0 if all(v.right for v in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Compiles every CUDA source for every GPU it is meant for, and reports what the kernels take.

python -m tools.cuda_check [--arch sm_80 ...]: no warning may be left, and no kernel may keep
registers in memory (spill), but for a few bytes. Prints one line for each kernel name, that of the
variant that takes the most; with --verbose one for each variant. Needs neither GPU nor Paddle.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"
# Bytes that a kernel may store and load again: ptxas trades a register or two for more threads.
MOST_SPILLED = 16
# All that CUDA 13.0 knows.
_NUMBERS = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
ARCHITECTURES = tuple(f"sm_{number}" for number in _NUMBERS)
REPORT = re.compile(
    r"Compiling entry function '(?P<symbol>\w+)' for '(?P<arch>\w+)'.*?"
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """What ptxas says of one kernel."""

    name: str
    arch: str
    registers: int
    shared: int  # bytes for each block
    spilled: int  # bytes stored and loaded


def nvcc() -> str:
    """The compiler of the toolkit that the package is built with."""
    home = runpy.run_path(str(ROOT / "paddle_ops" / "_build.py"))["cuda_home"]()
    if home is None:
        raise SystemExit("nvcc is not installed; set CUDA_HOME to the folder of CUDA")
    return os.path.join(home, "bin", "nvcc")


def compile_source(source: Path, arch: str) -> list[Kernel]:
    """Compile for one GPU, warnings being errors; nothing is kept but the report."""
    command = [nvcc(), "-std=c++17", "-O3", f"-arch={arch}", f"-I{CSRC}", "-Werror", "all-warnings"]
    command += ["-Xcompiler=-Wall", "-Xptxas", "-v", "-cubin", "-o", os.devnull, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return parse(done.stdout + done.stderr)


def parse(report: str) -> list[Kernel]:
    """The kernels in ptxas's report."""
    found = [match.groupdict() for match in REPORT.finditer(report)]
    names = "\n".join(kernel["symbol"] for kernel in found)
    plain = subprocess.run(["c++filt"], input=names, capture_output=True, text=True, check=True)
    return [
        Kernel(
            re.sub(r"paddle_ops::|cuda::|^void ", "", name),
            kernel["arch"],
            int(kernel["registers"]),
            sum(int(bytes_) for bytes_ in re.findall(r"(\d+) bytes smem", kernel["rest"])),
            int(kernel["stores"]) + int(kernel["loads"]),
        )
        for name, kernel in zip(plain.stdout.splitlines(), found)
    ]


def sources() -> list[Path]:
    """The files that nvcc compiles."""
    return sorted(CSRC.rglob("*.cu"))


def compile_all(architectures: tuple[str, ...]) -> list[Kernel]:
    """Compile everything, as many files at a time as MAX_JOBS allows."""
    work = [(source, arch) for source in sources() for arch in architectures]
    with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)) as pool:
        return [
            kernel for kernels in pool.map(lambda w: compile_source(*w), work) for kernel in kernels
        ]


def lines(kernels: list[Kernel], verbose: bool) -> list[str]:
    """One line for each kernel, or for the worst one of each name and architecture."""
    worst: dict[tuple[str, ...], Kernel] = {}
    for kernel in kernels:
        key = (kernel.arch, kernel.name if verbose else kernel.name.split("<")[0].split("(")[0])
        known = worst.get(key)
        if known is None or (kernel.registers, kernel.shared) > (known.registers, known.shared):
            worst[key] = kernel
    return [
        f"{k.arch:6} {k.registers:4} registers {k.shared:6} B shared {k.spilled:3} spilled {name}"
        for (_, name), k in sorted(worst.items())
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the check; 1 when a kernel spills."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", nargs="+", default=list(ARCHITECTURES))
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    kernels = compile_all(tuple(options.arch))
    print("\n".join(lines(kernels, options.verbose)))
    spilling = [kernel for kernel in kernels if kernel.spilled > MOST_SPILLED]
    for kernel in spilling:
        print(f"spills {kernel.spilled} bytes on {kernel.arch}: {kernel.name}")
    print(
        f"{len(sources())} files, {len(options.arch)} GPUs, {len(kernels)} kernels, "
        f"{len(spilling)} of them spill"
    )
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())

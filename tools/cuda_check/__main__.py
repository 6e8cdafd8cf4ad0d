"""Compiles every CUDA source for every GPU it is meant for, and reports what the kernels take.

python -m tools.cuda_check [--compiler 11.8 ...] [--arch sm_80 ...]: no warning may be left, no
kernel may keep registers in memory (spill), but for a few bytes, and those that nvcc compiles must
have the instructions that are meant (see sass.py). Prints one line for each kernel name, that of
the variant that takes the most; with --verbose one for each variant. Compilers are nvcc and
releases of NVRTC. Needs pip install .[cuda-check], but neither GPU nor Paddle.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.cuda_check import nvcc, nvrtc, sass
from tools.cuda_check.report import Kernel, lines, parse

ARCHITECTURES = {"nvcc": nvcc.ARCHITECTURES, **nvrtc.ARCHITECTURES}


def sources() -> list[Path]:
    """The files that nvcc compiles."""
    return sorted(nvcc.CSRC.rglob("*.cu"))


def compile_by_nvcc(source: Path, arch: str) -> list[Kernel]:
    """The kernels of a file, with their instructions."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernels.cubin"
        kernels = parse(nvcc.compile_source(source, arch, cubin))
        found = sass.instructions(cubin) if kernels else {}
    return [dataclasses.replace(k, instructions=found[k.name]) for k in kernels]


def compile_all(compiler: str, architectures: tuple[str, ...], files: list[Path]) -> list[Kernel]:
    """Compile files, in threads, as many at a time as MAX_JOBS allows."""
    if compiler == "nvcc":
        compile_one = compile_by_nvcc
    else:
        library = nvrtc.Nvrtc(compiler)

        def compile_one(source: Path, arch: str) -> list[Kernel]:
            return parse(library.compile_source(source, arch))

    work = [(source, arch) for source in files for arch in architectures]
    with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)) as pool:
        return [
            kernel for kernels in pool.map(lambda w: compile_one(*w), work) for kernel in kernels
        ]


def faults(kernel: Kernel, most_spilled: int) -> Iterator[str]:
    """Yield what is wrong with a kernel."""
    if kernel.spilled > most_spilled:
        yield f"spills {kernel.spilled} bytes"
    if kernel.instructions:
        yield from sass.broken(kernel)


def check(compiler: str, architectures: tuple[str, ...], verbose: bool) -> bool:
    """Compile with one compiler, print, and return whether nothing is wrong."""
    kernels = compile_all(compiler, architectures, sources())
    most_spilled = (nvcc if compiler == "nvcc" else nvrtc).MOST_SPILLED
    found = [f"{k.arch} {fault}: {k.name}" for k in kernels for fault in faults(k, most_spilled)]
    name = compiler if compiler == "nvcc" else f"NVRTC {compiler}"
    for line in [*lines(kernels, verbose), *found]:
        print(name, line)
    print(
        f"{name}: {len(sources())} files, {len(architectures)} GPUs, {len(kernels)} kernels, "
        f"{len(found)} faults"
    )
    return not found


def main(arguments: list[str] | None = None) -> int:
    """Run the check; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--compiler", nargs="+", choices=list(ARCHITECTURES), default=list(ARCHITECTURES)
    )
    parser.add_argument("--arch", nargs="+", help="default: all that the compiler is for")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    good = [
        check(compiler, tuple(options.arch or ARCHITECTURES[compiler]), options.verbose)
        for compiler in options.compiler
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Compiles every CUDA source for every GPU it is meant for, and reports what the kernels take.

python -m tools.cuda_check [--compiler 11.8 ...] [--arch sm_80 ...]: no warning may be left, and no
kernel may keep registers in memory (spill), but for a few bytes. Prints one line for each kernel
name, that of the variant that takes the most; with --verbose one for each variant. Compilers are
nvcc and releases of NVRTC (pip install .[cuda-check]). Needs neither GPU nor Paddle.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.cuda_check import nvcc, nvrtc
from tools.cuda_check.report import Kernel, lines, parse

ARCHITECTURES = {"nvcc": nvcc.ARCHITECTURES, **nvrtc.ARCHITECTURES}


def sources() -> list[Path]:
    """The files that nvcc compiles."""
    return sorted(nvcc.CSRC.rglob("*.cu"))


def compile_all(compiler: str, architectures: tuple[str, ...], files: list[Path]) -> list[Kernel]:
    """Compile files, in threads, as many at a time as MAX_JOBS allows."""
    compile_source = (nvcc if compiler == "nvcc" else nvrtc.Nvrtc(compiler)).compile_source
    work = [(source, arch) for source in files for arch in architectures]
    with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)) as pool:
        reports = pool.map(lambda source_and_arch: compile_source(*source_and_arch), work)
        return [kernel for report in reports for kernel in parse(report)]


def check(compiler: str, architectures: tuple[str, ...], verbose: bool) -> bool:
    """Compile with one compiler, print, and return whether no kernel spills."""
    kernels = compile_all(compiler, architectures, sources())
    name = compiler if compiler == "nvcc" else f"NVRTC {compiler}"
    print("\n".join(f"{name} {line}" for line in lines(kernels, verbose)))
    most = (nvcc if compiler == "nvcc" else nvrtc).MOST_SPILLED
    spilling = [kernel for kernel in kernels if kernel.spilled > most]
    for kernel in spilling:
        print(f"{name} spills {kernel.spilled} bytes on {kernel.arch}: {kernel.name}")
    print(
        f"{name}: {len(sources())} files, {len(architectures)} GPUs, {len(kernels)} kernels, "
        f"{len(spilling)} of them spill"
    )
    return not spilling


def main(arguments: list[str] | None = None) -> int:
    """Run the check; 1 when a kernel spills."""
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

"""nvcc: the compiler of the toolkit that the package is built with."""

from __future__ import annotations

import os
import runpy
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
# All that CUDA 13.0 knows.
_NUMBERS = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
ARCHITECTURES = tuple(f"sm_{number}" for number in _NUMBERS)
# Bytes that a kernel may store and load again: ptxas trades a register or two for more threads.
MOST_SPILLED = 16


def nvcc() -> str:
    """Its path."""
    home = runpy.run_path(str(ROOT / "paddle_ops" / "_build.py"))["cuda_home"]()
    if home is None:
        raise SystemExit("nvcc is not installed; set CUDA_HOME to the folder of CUDA")
    return os.path.join(home, "bin", "nvcc")


def compile_source(source: Path, arch: str, cubin: str | Path = os.devnull) -> str:
    """Compile for one GPU, warnings being errors; returns the report."""
    command = [nvcc(), "-std=c++17", "-O3", f"-arch={arch}", f"-I{CSRC}", "-Werror", "all-warnings"]
    command += ["-Xcompiler=-Wall", "-Xptxas", "-v", "-cubin", "-o", str(cubin), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr

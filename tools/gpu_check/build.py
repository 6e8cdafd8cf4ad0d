"""Builds the kernels' pybind11 module with nvcc: the CUDA kernels behind it, and no Paddle."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import pybind11

from tools.cuda_check.nvcc import CSRC, nvcc

_HERE = Path(__file__).resolve().parent


def build(folder: Path, arch: str = "native") -> Path:
    """Compile and link for one kind of GPU, by default the one that is here."""
    folder.mkdir(parents=True, exist_ok=True)
    includes = [str(CSRC), pybind11.get_include(), sysconfig.get_path("include")]
    sources = [*CSRC.glob("targets/*_cuda*.cu"), *CSRC.glob("pybind/*.cc"), _HERE / "launchers.cc"]
    common = [nvcc(), "-std=c++17", "-O3", f"-arch={arch}", "-Xcompiler=-fPIC"]
    objects = []
    for source in sorted(sources):
        objects.append(str(folder / f"{source.name}.o"))
        command = [*common, *(f"-I{path}" for path in includes), "-c", str(source)]
        subprocess.run([*command, "-o", objects[-1]], check=True)
    module = folder / "_kernels.so"
    subprocess.run([*common, "-shared", *objects, "-o", str(module)], check=True)
    return module


def load(path: Path) -> ModuleType:
    """Import a module _kernels; several may be open at once."""
    loader = importlib.machinery.ExtensionFileLoader("_kernels", str(path))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("_kernels", loader, origin=str(path))
    )
    loader.exec_module(module)
    return module

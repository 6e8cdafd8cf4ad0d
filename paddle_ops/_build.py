"""What is compiled and how: the one address of sources and flags, for setup.py and for the JIT.

setup.py runs this file by its path, before the package can be imported, so it uses nothing
else of the package.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent

BINARY = "_binary.so"
RECORD = "_build_info.json"

# Turing and later; the last one's PTX serves what comes after it.
_GPUS = "7.5;8.0;8.6;9.0+PTX"


def csrc() -> Path:
    """Return the C++ sources: beside the package in a checkout, inside it once installed."""
    for folder in (_PACKAGE / "csrc", _PACKAGE.parent / "csrc"):
        if (folder / "binding").is_dir():
            return folder
    raise FileNotFoundError(f"paddle_ops: no C++ sources in or beside {_PACKAGE}")


def cuda_home() -> str | None:
    """Return the CUDA toolkit, the folder with bin/nvcc and include/, or None without one.

    That is CUDA_HOME or CUDA_PATH where one of them is set, else where nvcc is found. Paddle looks
    for itself, but takes a wrapper script on the PATH for the compiler: hand this to it.
    """
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    nvcc = shutil.which("nvcc")
    found = [Path(nvcc).resolve().parents[1]] if nvcc else []
    for folder in [Path(named)] if named else [*found, Path("/usr/local/cuda")]:
        if (folder / "bin" / "nvcc").is_file() and (folder / "include" / "cuda.h").is_file():
            return str(folder)
    return None


def uses_cuda() -> bool:
    """Return whether the GPU's kernels are compiled: for a GPU build of Paddle, where nvcc is.

    PADDLE_OPS_CUDA=0 in the environment leaves them out, 1 insists on them.

    Raises:
        RuntimeError: PADDLE_OPS_CUDA is 1 and there is no nvcc, or it is neither 0 nor 1.
    """
    asked = os.environ.get("PADDLE_OPS_CUDA", "")
    if asked not in ("", "0", "1"):
        raise RuntimeError(f"PADDLE_OPS_CUDA: expected 0 or 1, got {asked!r}")
    if asked == "1" and cuda_home() is None:
        raise RuntimeError("PADDLE_OPS_CUDA is 1, but there is no nvcc; set CUDA_HOME")
    if asked:
        return asked == "1"
    import paddle

    return paddle.is_compiled_with_cuda() and cuda_home() is not None


def sources() -> list[str]:
    """Return the files to compile, in a stable order."""
    kinds = ("*.cc", "*.cu") if uses_cuda() else ("*.cc",)
    return sorted(str(path) for kind in kinds for path in csrc().rglob(kind))


def include_paths() -> list[str]:
    """Return the folders that headers are found in: our own, and parts of CUDA that moved."""
    moved = Path(cuda_home() or "", "include", "cccl")
    return [str(csrc()), str(moved)] if uses_cuda() and moved.is_dir() else [str(csrc())]


def cxx_flags() -> list[str]:
    """Return the flags for the C++ compiler.

    Paddle recompiles when a flag changes but does not watch headers: the hash of all sources
    travels as a macro that nothing reads, so that a changed header is a changed flag.
    """
    return [
        "-std=c++17",
        "-O3",
        "-g0",
        "-fopenmp",
        "-fno-math-errno",
        "-fno-trapping-math",
        f"-DPADDLE_OPS_SOURCES={sources_hash()}",
        *(["-DPADDLE_OPS_CUDA"] if uses_cuda() else []),
    ]


def cuda_flags() -> list[str]:
    """Return the flags for nvcc.

    PADDLE_CUDA_ARCH_LIST in the environment says which GPUs to compile for, as in "8.6" or
    "8.0;9.0+PTX". With PTX, newer GPUs than that one work too.
    """
    flags = ["-std=c++17", "-O3", f"-DPADDLE_OPS_SOURCES={sources_hash()}"]
    for arch in re.split(r"[;, ]+", os.environ.get("PADDLE_CUDA_ARCH_LIST") or _GPUS):
        match = re.fullmatch(r"(\d+)\.(\d[af]?)(\+PTX)?", arch)
        if match is None:
            raise RuntimeError(f"PADDLE_CUDA_ARCH_LIST: expected e.g. 8.6 or 9.0+PTX, got {arch!r}")
        number = match[1] + match[2]
        flags.append(f"-gencode=arch=compute_{number},code=sm_{number}")
        if match[3]:
            flags.append(f"-gencode=arch=compute_{number},code=compute_{number}")
    return flags


def link_flags() -> list[str]:
    """Return the linker flags.

    OpenMP comes from Paddle's own libiomp5 (hence no -fopenmp here): with the system's libgomp
    beside it, forked children hang in their first parallel region. Paddle 2.6 looks for its entry
    point through libpaddle, even in a library that registers nothing, so libpaddle must stay among
    the needed libraries.
    """
    return ["-l:libiomp5.so", "-Wl,-s", "-Wl,--no-as-needed"]


def sources_hash() -> str:
    """Return a hash of the names and contents of all files below csrc."""
    digest = hashlib.sha256()
    root = csrc()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def runtime() -> dict[str, str]:
    """Return what a binary depends on: it works with exactly this Paddle and this Python."""
    from paddle import version

    return {
        "paddle": version.full_version,
        # nightly builds all carry the same version number
        "commit": version.commit,
        # "False" in a CPU build
        "cuda": str(version.cuda()),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }


def record() -> dict[str, str]:
    """Return what is written beside a binary when it is built."""
    return {**runtime(), "sources": sources_hash(), "gpu_kernels": str(uses_cuda())}

"""What is compiled and how: the one address of sources and flags, for setup.py and for the JIT.

setup.py runs this file by its path, before the package can be imported, so it uses nothing
else of the package.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent

BINARY = "_binary.so"
RECORD = "_build_info.json"


def csrc() -> Path:
    """Return the C++ sources: beside the package in a checkout, inside it once installed."""
    for folder in (_PACKAGE / "csrc", _PACKAGE.parent / "csrc"):
        if (folder / "binding").is_dir():
            return folder
    raise FileNotFoundError(f"paddle_ops: no C++ sources in or beside {_PACKAGE}")


def sources() -> list[str]:
    """Return the files to compile, in a stable order."""
    return sorted(str(path) for path in csrc().rglob("*.cc"))


def include_paths() -> list[str]:
    """Return the folders that the sources' own headers are found from."""
    return [str(csrc())]


def cxx_flags() -> list[str]:
    """Return the compiler flags.

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
    ]


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
    return {**runtime(), "sources": sources_hash()}

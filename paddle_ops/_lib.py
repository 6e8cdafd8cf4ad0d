"""The one place that finds, checks and loads the compiled operators."""

from __future__ import annotations

# Paddle 2.6 exports an old zlib from its library; whoever uses zlib first decides which copy the
# process gets, and the old one crashes. So this import stands before Paddle's.
import zlib as _zlib  # noqa: F401  isort: skip

import importlib.machinery
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

from paddle.base.framework import OpProtoHolder
from paddle.utils.cpp_extension import load_op_meta_info_and_register_op

from . import _build

_PACKAGE = Path(__file__).resolve().parent

# The library that this process took the operators from, when it was one of ours.
_library: Path | None = None
# Why each binary that was found could not be used.
_refusals: list[str] = []


def registered() -> bool:
    """Return whether Paddle knows the operators, whoever loaded them."""
    return any(name.startswith("paddle_ops_") for name in OpProtoHolder.instance().op_proto_map)


def library() -> Path | None:
    """Return the library that this package registered, or None when it registered none."""
    return _library


def register(path: Path) -> None:
    """Hand the operators of a library to Paddle, and remember where they came from."""
    global _library
    if not registered():
        load_op_meta_info_and_register_op(str(path))
    _library = path


def load() -> bool:
    """Register the compiled operators unless Paddle has them; return whether it has them now.

    Every operator name can be registered once in a process: a second library that brings the
    same names would make Paddle end the process.
    """
    if registered():
        return True
    _refusals.clear()
    if os.environ.get("PADDLE_OPS_JIT", "0") not in ("", "0"):
        _refusals.append("PADDLE_OPS_JIT is set, which keeps compiled binaries from being loaded")
        return False
    for binary in _binaries():
        reason = refusal(binary)
        if reason is None:
            try:
                register(binary)
                return True
            except (ImportError, OSError, RuntimeError, ValueError) as error:
                reason = f"the library cannot be loaded: {error}"
        _refusals.append(f"{binary}: {reason}")
    return False


def require() -> None:
    """Raise an ImportError that says what to do when Paddle does not have the operators."""
    if load():
        return
    found = _refusals or [f"{_PACKAGE / _build.BINARY}: there is no such file"]
    checkout = _PACKAGE.parent
    where = str(checkout) if (checkout / "setup.py").is_file() else "<checkout of paddle_ops>"
    raise ImportError(
        f"paddle_ops: no compiled operators for {_describe(_build.runtime())}\n  "
        + "\n  ".join(found)
        + "\nEither build and install them for this Paddle:\n"
        f"  {sys.executable} -m pip install --force-reinstall --no-deps {where}\n"
        "or compile them now, once (later runs find the result in a cache):\n"
        "  import paddle_ops; paddle_ops.jit.load()",
        name="paddle_ops",
    )


def kernels() -> ModuleType:
    """Return the pybind11 module over the same kernels, which lives in the operators' library."""
    require()
    name = "paddle_ops._kernels"
    if name in sys.modules:
        return sys.modules[name]
    if _library is None:
        raise ImportError(
            "paddle_ops: the operators were registered by a library that this package did not "
            "load; use paddle_ops.jit.load() to have the kernel module too",
            name="paddle_ops",
        )
    loader = importlib.machinery.ExtensionFileLoader(name, str(_library))
    spec = importlib.util.spec_from_file_location(name, str(_library), loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def refusal(binary: Path) -> str | None:
    """Return why a library must not be loaded here, or None when it may be.

    The record beside it is read before the library is opened: one that was built for another
    Paddle can end the process when it is.
    """
    built = record(binary)
    if not built:
        return f"it lacks its record {_build.RECORD}, so what it was built for is unknown"
    runtime = _build.runtime()
    if {key: built.get(key) for key in runtime} != runtime:
        return f"it was built for {_describe(built)}"
    # A binary of another copy of the package must come from the sources that stand beside this one.
    if binary.parent != _PACKAGE and built.get("sources") != _build.sources_hash():
        return "it was built from other sources than this copy of the package has"
    return None


def record(binary: Path) -> dict[str, str]:
    """Return what was written down when a library was built, or nothing where that is missing."""
    try:
        return json.loads((binary.parent / _build.RECORD).read_text())
    except (OSError, ValueError):
        return {}


def _binaries() -> list[Path]:
    """Return the libraries that exist: this package's own first, then those of other copies.

    Python started in a checkout imports the package from there, although an installed copy has
    the binary.
    """
    folders = [_PACKAGE, *(Path(entry or ".").resolve() / "paddle_ops" for entry in sys.path)]
    binaries = dict.fromkeys(folder / _build.BINARY for folder in folders)
    return [binary for binary in binaries if binary.is_file()]


def _describe(runtime: dict[str, str]) -> str:
    """Return a record in words."""
    cuda = runtime.get("cuda")
    device = "CPU" if cuda == "False" else f"CUDA {cuda}"
    commit = str(runtime.get("commit"))[:8]
    return (
        f"Paddle {runtime.get('paddle')} ({device}, commit {commit}) "
        f"and Python {runtime.get('python')}"
    )

"""The operators compiled just in time, from training code.

`load()` is the short way. Paddle's own entry takes the same sources and flags::

    import paddle_ops
    from paddle.utils.cpp_extension import load

    load(
        name="paddle_ops_jit",
        sources=paddle_ops.jit.sources(),
        extra_cxx_cflags=paddle_ops.jit.cxx_flags(),
        extra_cuda_cflags=paddle_ops.jit.cuda_flags(),
        extra_ldflags=paddle_ops.jit.link_flags(),
        extra_include_paths=paddle_ops.jit.include_paths(),
    )

Either way the operators are then reached as `paddle_ops.deform_conv2d` and so on. Where a compiled
binary is installed, importing the package has registered the operators already, and both ways leave
it at that. Set PADDLE_OPS_JIT=1 in the environment to ignore the binary and compile all the same.

With a GPU build of Paddle and nvcc, the GPU's kernels are compiled too: see _build.uses_cuda and
_build.cuda_flags for PADDLE_OPS_CUDA and PADDLE_CUDA_ARCH_LIST. Paddle's own entry needs CUDA_HOME
in the environment then, before Paddle is imported.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import warnings
from pathlib import Path

from paddle.utils import cpp_extension

from . import _build, _lib
from ._build import cuda_flags, cxx_flags, include_paths, link_flags

__all__ = ["cuda_flags", "cxx_flags", "include_paths", "link_flags", "load", "sources"]


def sources() -> list[str]:
    """Return the files to compile.

    When the operators are registered from a binary of this package, that is a file without any
    code: a second library that brings the same operators would make Paddle end the process.
    """
    if _lib.library() is None:
        return _build.sources()
    warnings.warn(
        f"paddle_ops: the operators are registered already, from {_lib.library()}, so there is "
        "nothing to compile; set PADDLE_OPS_JIT=1 before Python starts to compile them instead",
        stacklevel=2,
    )
    return [str(Path(__file__).resolve().parent / "_nothing.cc")]


def load(
    name: str = "paddle_ops_jit",
    build_directory: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> None:
    """Compile the operators, or find them in the cache of an earlier run, and register them.

    Returns at once when the operators are registered already. Several processes may call this at
    the same time: one compiles, the others wait for it.

    Args:
        name: name of the library that is built.
        build_directory: where to build and to look for an earlier build. By default Paddle's own
            folder for extensions: PADDLE_EXTENSION_DIR, or else ~/.cache/paddle_extensions.
        verbose: show what the compiler is called with and what it says.
    """
    if _lib.registered():
        return
    record = _build.record()
    folder = _folder(name, build_directory, record)
    library = folder / name / f"{name}.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _lib.refusal(library) is None:
            _lib.register(library)
            return
        if _build.uses_cuda():
            os.environ["CUDA_HOME"] = str(_build.cuda_home())  # for the process that compiles
        cpp_extension.load(
            name=name,
            sources=_build.sources(),
            extra_cxx_cflags=cxx_flags(),
            extra_cuda_cflags=cuda_flags(),
            extra_ldflags=link_flags(),
            extra_include_paths=include_paths(),
            build_directory=str(folder),
            verbose=verbose,
        )
        # Written last: a library without its record is one whose build did not finish.
        (library.parent / _build.RECORD).write_text(json.dumps(record))
        _lib.register(library)


def _folder(
    name: str, build_directory: str | os.PathLike[str] | None, record: dict[str, str]
) -> Path:
    """Return where one combination of Paddle, Python, sources and flags is built."""
    key = json.dumps([record, cxx_flags(), cuda_flags(), link_flags()], sort_keys=True)
    root = Path(build_directory or cpp_extension.get_build_directory()).resolve()
    return root / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"

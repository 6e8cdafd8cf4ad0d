"""What is installed, how it was built, and what is wrong: python -m paddle_ops.doctor.

The exit status is 1 if something is wrong. Paste the output into a report of a fault.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator

from . import __version__, _build, _lib, get_num_threads

# isort: split
import numpy as np
import paddle

_VARIABLES = (
    "PADDLE_OPS_JIT",
    "PADDLE_OPS_NUM_THREADS",
    "PADDLE_OPS_GPU_SCRATCH_MB",
    "PADDLE_OPS_TARGET",
    "PADDLE_OPS_CUDA",
    "PADDLE_EXTENSION_DIR",
    "PADDLE_CUDA_ARCH_LIST",
    "CUDA_HOME",
    "OMP_NUM_THREADS",
)
_TARGETS = ("", "baseline", "avx2", "avx512")


def facts() -> Iterator[tuple[str, str]]:
    """Yield (what, value) pairs: versions, the binary, the machine, the environment."""
    yield "paddle_ops", f"{__version__} in {Path(__file__).parent}"
    device = f"CUDA {paddle.version.cuda()}" if paddle.is_compiled_with_cuda() else "CPU"
    yield "Paddle", f"{paddle.version.full_version} for {device}, commit {paddle.version.commit}"
    yield "GPUs", str(_gpus())
    yield "Python, NumPy", f"{platform.python_version()}, {np.__version__}"
    yield "system", f"{platform.platform()}, {'-'.join(platform.libc_ver())}"
    if _lib.load():
        library = _lib.library()
        yield "operators from", str(library or "a library that another caller registered")
        if library is not None:
            for key, value in _lib.record(library).items():
                yield f"built: {key}", value
            yield "instruction set", _lib.kernels().instruction_set()
    yield "threads", f"{get_num_threads()} of {os.cpu_count()} CPUs"
    yield "large pages", _first_line(Path("/sys/kernel/mm/transparent_hugepage/enabled"))
    for compiler in ("g++", "nvcc"):
        yield compiler, _version(compiler)
    for name in _VARIABLES:
        if name in os.environ:
            yield name, repr(os.environ[name])


def problems() -> Iterator[str]:
    """Yield what is wrong, each with what to do about it."""
    try:
        _lib.require()
    except ImportError as error:
        yield str(error)
    else:
        yield from _faults_of_the_binary()
        yield from _faults_of_the_operators()
    for name in ("PADDLE_OPS_NUM_THREADS", "PADDLE_OPS_GPU_SCRATCH_MB"):
        number = os.environ.get(name, "1")
        if not number.isdecimal() or int(number) < 1:
            yield f"{name} is {number!r} and not a positive number: it does not count"
    target = os.environ.get("PADDLE_OPS_TARGET", "")
    if target not in _TARGETS:
        names = ", ".join(_TARGETS[1:])
        yield f"PADDLE_OPS_TARGET is {target!r} and not one of {names}: it does not count"


def _faults_of_the_binary() -> Iterator[str]:
    library = _lib.library()
    if library is None:
        return
    record = _lib.record(library)
    if record.get("sources") != _build.sources_hash():
        yield (
            f"{library} was built from other sources than those in {_build.csrc()}: install again "
            "(pip install . or pip install -e .)"
        )
    if _gpus() and record.get("gpu_kernels") != "True":
        yield (
            "there is a GPU, but the binary holds CPU kernels only: set CUDA_HOME to a toolkit "
            "with nvcc and install again"
        )


def _faults_of_the_operators() -> Iterator[str]:
    """Compute two small results that are known."""
    from .functional import deform_conv2d, sigmoid_cross_entropy_with_logits

    for place in ["cpu", *(["gpu"] if _gpus() else [])]:
        try:
            with paddle.no_grad():
                x = paddle.arange(1.0, 10.0).reshape([1, 1, 3, 3]).to(place)
                half, one = paddle.full([1, 2, 3, 3], 0.5), paddle.ones([1, 1, 1, 1])
                out = deform_conv2d(x, half.to(place), one.to(place)).numpy().ravel()
                loss = sigmoid_cross_entropy_with_logits(-x, x * 0).numpy().ravel()
        except Exception as error:  # whatever it is, it is what is wrong
            yield f"the operators fail on {place}: {error}"
            continue
        if not np.allclose(out, [3, 4, 2.25, 6, 7, 3.75, 3.75, 4.25, 2.25]):
            yield f"deform_conv2d gives wrong numbers on {place}: {out.tolist()}"
        if not np.allclose(loss, np.log1p(np.exp(-np.arange(1.0, 10.0))), rtol=1e-5):
            yield f"sigmoid_cross_entropy_with_logits is wrong on {place}: {loss.tolist()}"


def _gpus() -> int:
    return paddle.device.cuda.device_count() if paddle.is_compiled_with_cuda() else 0


def _first_line(path: Path) -> str:
    return path.read_text().splitlines()[0] if path.is_file() else "not offered"


def _version(compiler: str) -> str:
    found = shutil.which(compiler)
    if found is None:
        return "not found (needed to compile the operators only)"
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in said.stdout.splitlines() if "release" in line] or [said.stdout]
    return f"{lines[0].splitlines()[0] if lines[0] else 'silent'} ({found})"


def main() -> int:
    """Print the facts and the problems; return the exit status."""
    for what, value in facts():
        print(f"{what:22} {value}")
    wrong = list(problems())
    for problem in wrong:
        print(f"\nWRONG: {problem}")
    print(f"\n{len(wrong) or 'no'} problem{'' if len(wrong) == 1 else 's'} found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Builds CUDA code for the CPU and runs it: what tests import. README.md says how it works.

A program is one or more .cu files. What tests call is extern "C", takes pointers, int64_t and
double only, and returns cudaError_t:

    program = emulator.build(["programs/sums.cu"])                      # nvcc -> PTX -> C++
    program = emulator.build(["programs/sums.cu"], front_end="source")  # g++ on the source itself

    x, out = np.ones(1000, np.float32), np.zeros(1, np.float32)
    program.call("sum", x, out, x.size)          # arrays are device memory during the call
    program.call("sum", x[:999].copy(), out, 1000)  # emulator.Fault: out of bounds, with the line

A read-only array (array.flags.writeable = False) may not be written by a kernel. How it runs:

    with program.configured(order="reverse"):         # or "random", seed=3; else forward
    with program.configured(grid=(1,), block=(32,)):  # instead of what the launcher asks for
    with program.configured(blocks=(3, 3)):           # only these blocks of each grid run
    with program.configured(blocks=(-2, -1)):         # the last two

An operator of this project comes as the module `_kernels` does for the CPU, with the same functions
and arguments; operators/<op>.cc says how its launcher is called:

    kernels = emulator.operator("sigmoid_cross_entropy_with_logits")
    kernels.sigmoid_cross_entropy_with_logits_forward(out=out, x=x, label=label)
    with kernels.program.configured(order="random", seed=1): ...

Sanitizers need a process of their own. `sanitized` runs a script there, in which `program` is the
program, and returns what it printed; it raises Fault with the sanitizer's report:

    program = emulator.build([...], front_end="source", sanitize="address")    # or "thread"
    emulator.sanitized(program, "program.call('sum', np.ones(9, 'f'), np.zeros(1, 'f'), 9)")

`sparse(shape, dtype)` is a zero array of any size that takes no memory until it is touched.
Builds are kept in build/cuda_emulator, by the contents of all that goes into them. `needs_nvcc`
marks tests; EMULATOR_FLAGS adds flags for g++ (-g -O0 to step through a kernel).
"""

import contextlib
import ctypes
import importlib.machinery
import importlib.util
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels.cuda import compile

HERE = compile.HERE
needs_nvcc = pytest.mark.skipif(compile.NVCC is None, reason="nvcc is not installed")

ORDERS = ("forward", "reverse", "random")
LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}


class Fault(Exception):
    """A kernel did what no CUDA program may do; the text says what, where, and in which thread."""


def build(sources, front_end="ptx", sanitize=None, defines=(), arch="sm_80", cxx=()):
    """Compiles and links .cu files (paths from this folder) into a Program.

    defines: flags such as "-DBUG". cxx: host sources as (path, flags), for pybind11 modules.
    """
    return Program(compile.library(sources, front_end, sanitize, defines, arch, cxx), sanitize)


def operator_program(name, **how):
    """A Program with an operator's kernels and the module around them; how: as for build."""
    cxx = [
        (compile.CSRC / "pybind" / f"{name}_py.cc", []),
        (HERE / "operators" / f"{name}.cc", []),
        (HERE / "operators" / "module.cc", [f"-DBIND=bind_{name}"]),
    ]
    sources = sorted((compile.CSRC / "targets").glob(f"{name}_cuda*.cu"))
    return build(sources, cxx=cxx, **how)


def operator(name, **how):
    """The module _kernels with one operator, whose functions launch its CUDA kernels."""
    return operator_program(name, **how).module()


# -- running --------------------------------------------------------------------------------------


class Program:
    """A library of emulated kernels. It is opened at the first use, unless it is sanitized."""

    def __init__(self, path, sanitize=None):
        self.path, self.sanitize, self._library = Path(path), sanitize, None

    @property
    def library(self):
        if self._library is None:
            if self.sanitize and os.environ.get("EMULATOR_CHILD") != self.sanitize:
                raise RuntimeError("a sanitized program runs in a child: see sanitized()")
            self._library = ctypes.CDLL(str(self.path))
            self._library.emu_take_fault.restype = ctypes.c_char_p
        return self._library

    def module(self):
        """The pybind11 module in the library; its attribute `program` is this object."""
        # pybind11 keeps modules by their whole name, so that each program needs its own
        name = f"{self.path.stem}._kernels"
        loader = importlib.machinery.ExtensionFileLoader(name, str(self.path))
        spec = importlib.util.spec_from_loader(name, loader)
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        module.program = self
        return module

    def call(self, function, *arguments):
        """Calls an extern "C" function; the arrays among the arguments are device memory."""
        address = getattr(self.library, function)
        address.restype = ctypes.c_int
        arrays = [a for a in arguments if isinstance(a, np.ndarray)]
        for position, array in enumerate(arguments):
            if isinstance(array, np.ndarray):
                self._register(array, f"argument {position}")
        try:
            error = address(*map(self._converted, arguments))
        finally:
            for array in arrays:
                self.library.emu_unregister(ctypes.c_void_p(array.ctypes.data))
        self.check()
        if error != 0:
            raise RuntimeError(f"{function}: cudaError {error}")

    def check(self):
        """Raises the first fault since the last look, if there was one."""
        fault = self.library.emu_take_fault().decode()
        if fault:
            raise Fault(fault)

    def launches(self):
        """How many kernels have been launched so far."""
        return self.library.emu_launches()

    def waits(self):
        """How often the host has waited for the device so far, in whatever way."""
        return self.library.emu_waits()

    def _register(self, array, name):
        if not array.flags.c_contiguous:
            raise TypeError(f"{name}: expected a contiguous array")
        self.library.emu_register(
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_size_t(array.nbytes),
            int(array.flags.writeable),
            name.encode(),
        )

    @staticmethod
    def _converted(argument):
        if isinstance(argument, np.ndarray):
            return ctypes.c_void_p(argument.ctypes.data)
        if argument is None:
            return ctypes.c_void_p(None)
        if isinstance(argument, float):
            return ctypes.c_double(argument)
        return ctypes.c_int64(argument)

    @contextlib.contextmanager
    def configured(self, order="forward", seed=0, grid=(0,), block=(0,), blocks=(0, -1)):
        """How the kernels run inside of the with statement; see the top of this file."""
        self._configure(order, seed, grid, block, blocks)
        try:
            yield
        finally:
            self._configure("forward", 0, (0,), (0,), (0, -1))

    def _configure(self, order, seed, grid, block, blocks):
        sizes = [(ctypes.c_uint * 3)(*size, *[1] * (3 - len(size))) for size in (grid, block)]
        first, last = map(ctypes.c_int64, blocks)
        self.library.emu_configure(ORDERS.index(order), ctypes.c_uint64(seed), *sizes, first, last)


CHILD = """
import sys
import numpy as np
sys.path[:0] = {paths!r}
from kernels.cuda import emulator
program = emulator.Program({path!r}, {sanitize!r})
{script}
"""


def sanitized(program, script):
    """Runs a script beside a sanitized program in a process of its own; returns its output."""
    paths = [str(compile.ROOT / "tests"), str(compile.ROOT)]
    code = CHILD.format(
        paths=paths, path=str(program.path), sanitize=program.sanitize, script=script
    )
    command = ["g++", f"-print-file-name={LIBRARIES[program.sanitize]}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": found.stdout.strip(),
        "EMULATOR_CHILD": program.sanitize,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself leaves memory behind
        "TSAN_OPTIONS": "halt_on_error=1 exitcode=66",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Fault(done.stderr[-6000:] or f"exit code {done.returncode}")
    return done.stdout


def sparse(shape, dtype):
    """Zeros that take no memory until they are touched, for sizes beyond 2^31."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    reserve_only = getattr(mmap, "MAP_NORESERVE", 0x4000)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | reserve_only)
    return np.frombuffer(memory, dtype).reshape(shape)

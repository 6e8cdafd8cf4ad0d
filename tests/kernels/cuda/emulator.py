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
    with program.configured(blocks=(last, last)):     # only these blocks of the grid run

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
import hashlib
import importlib.machinery
import importlib.util
import mmap
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CSRC = ROOT / "csrc"
CACHE = ROOT / "build" / "cuda_emulator"
NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")

ORDERS = ("forward", "reverse", "random")
# Contraction is nvcc's to decide: what is a multiplication and an addition in the PTX stays two.
GXX = ["g++", "-std=c++17", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing"]
# Libraries of the same names are open at once and must not share a variable.
GXX += ["-march=native", "-fno-gnu-unique"]
SANITIZERS = {
    None: [],
    "address": ["-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-g1", "-fsanitize=thread"],
}
DEFINES = {None: [], "address": ["-DEMU_ADDRESS"], "thread": ["-DEMU_THREAD"]}
LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}


class Fault(Exception):
    """A kernel did what no CUDA program may do; the text says what, where, and in which thread."""


# -- compiling ------------------------------------------------------------------------------------


def toolkit():
    """The include folder of CUDA."""
    if NVCC is None:
        raise RuntimeError("nvcc is not installed")
    home = os.environ.get("CUDA_HOME") or str(Path(NVCC).resolve().parents[1])
    for folder in (home, "/usr/local/cuda", "/usr/local/cuda-13.0"):
        if (Path(folder) / "include" / "cuda_runtime.h").is_file():
            return str(Path(folder) / "include")
    raise RuntimeError("the headers of CUDA are not found: set CUDA_HOME")


def files(*patterns):
    """Own files that a step depends on."""
    found = [path for pattern in patterns for path in ROOT.glob(pattern)]
    return sorted(path for path in found if path.is_file())


ENGINE = "tests/kernels/cuda/engine/*"
KERNELS = ("csrc/**/*.h", "csrc/**/*.cuh", "csrc/**/*.cu", "tests/kernels/cuda/**/*.cu*")


def cached(steps, suffix, depends):
    """Runs commands, with TARGET and FOLDER replaced, unless their result is there already."""
    digest = hashlib.sha256(repr((steps, suffix)).encode())
    for path in depends:
        digest.update(str(path).encode() + path.read_bytes())
    target = CACHE / f"{digest.hexdigest()[:24]}{suffix}"
    if target.exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / f"{target.stem}.{os.getpid()}"
    folder.mkdir(exist_ok=True)
    unfinished = folder / target.name
    for step in steps:
        words = [w.replace("TARGET", str(unfinished)).replace("FOLDER", str(folder)) for w in step]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    unfinished.replace(target)
    shutil.rmtree(folder)
    return target


def includes(*folders):
    return [f"-I{folder}" for folder in (*folders, CSRC, HERE, toolkit())]


def engine_objects(sanitize):
    """The engine is never instrumented, or the sanitizers would watch the emulator."""
    for source in sorted((HERE / "engine").glob("*.cc")):
        command = [*GXX, "-O2", *DEFINES[sanitize], *includes(), "-c", str(source), "-o", "TARGET"]
        yield [command], ".o", files(ENGINE)


def cxx_object(source, flags):
    """Host code around an operator."""
    own = includes(pybind_include(), sysconfig.get_path("include"))
    command = [
        *GXX,
        "-O1",
        "-w",
        "-fvisibility=hidden",
        *own,
        *flags,
        "-c",
        str(source),
        "-o",
        "TARGET",
    ]
    return [command], ".o", [Path(source), *files("csrc/**/*.h", ENGINE)]


def pybind_include():
    import pybind11

    return pybind11.get_include()


def extra_flags():
    return os.environ.get("EMULATOR_FLAGS", "").split()


def ptx_objects(source, defines, arch, sanitize):
    """nvcc compiles the host's side, and once more to PTX, which is translated."""
    common = [NVCC, "-std=c++17", "-lineinfo", f"-I{CSRC}", f"-I{HERE}", *defines]
    depends = [Path(source), *files(*KERNELS)]
    # code=compute_...: no ptxas, nothing here needs machine code
    virtual = f"-gencode=arch={arch.replace('sm', 'compute')},code={arch.replace('sm', 'compute')}"
    host = [*common, virtual, "-Xcompiler=-fPIC,-fno-gnu-unique,-O1", "-c", str(source)]
    yield [[*host, "-o", "TARGET"]], ".o", depends
    ptx, translated = "FOLDER/device.ptx", "FOLDER/device.cc"
    device = [*common, f"-arch={arch}", "-ptx", str(source), "-o", ptx]
    translate = [sys.executable, str(HERE / "ptx" / "translate.py"), ptx, translated]
    compile_it = [*GXX, "-O1", "-w", *SANITIZERS[sanitize], *includes(HERE / "ptx")]
    compile_it += [*extra_flags(), "-c", translated, "-o", "TARGET"]
    yield [device, translate, compile_it], ".o", depends + files(ENGINE, "tests/kernels/cuda/ptx/*")


def source_objects(source, defines, sanitize):
    """g++ compiles a copy in which __shared__ variables have become calls of the engine."""
    rewrite = [sys.executable, str(HERE / "source" / "rewrite.py"), str(source), "FOLDER"]
    own = ["-include", str(HERE / "source" / "cuda_source.h"), "-IFOLDER"]
    own += [f"-I{HERE / 'source'}"]
    command = [*GXX, "-O1", "-w", *SANITIZERS[sanitize], *own, *includes(), *defines]
    command += [*extra_flags(), "-x", "c++", "-c", "FOLDER/main.cu", "-o", "TARGET"]
    depends = [Path(source), *files(*KERNELS, ENGINE, "tests/kernels/cuda/source/*")]
    yield [rewrite, command], ".o", depends


def build(sources, front_end="ptx", sanitize=None, defines=(), arch="sm_80", cxx=()):
    """Compiles and links .cu files (paths from this folder) into a Program.

    defines: flags such as "-DBUG". cxx: host sources as (path, flags), for pybind11 modules.
    """
    defines = list(defines)
    units = [*engine_objects(sanitize), *(cxx_object(path, flags) for path, flags in cxx)]
    for source in (HERE / name for name in sources):
        if front_end == "ptx":
            units += ptx_objects(source, defines, arch, sanitize)
        elif front_end == "source":
            units += source_objects(source, defines, sanitize)
        else:
            raise ValueError(f"front_end: expected 'ptx' or 'source', got {front_end!r}")
    jobs = int(os.environ.get("MAX_JOBS", os.cpu_count() or 1))
    with ThreadPoolExecutor(jobs) as pool:
        objects = [str(path) for path in pool.map(lambda unit: cached(*unit), units)]
    # -Bsymbolic: the stand-in for the runtime wins even where Paddle has loaded the real one
    link = ["g++", "-shared", *SANITIZERS[sanitize], "-Wl,-Bsymbolic", *objects, "-o", "TARGET"]
    return Program(cached([link], ".so", []), sanitize)


def operator_program(name, front_end="ptx", sanitize=None, defines=(), arch="sm_80"):
    """A Program with an operator's kernels and the module around them."""
    cxx = [
        (CSRC / "pybind" / f"{name}_py.cc", []),
        (HERE / "operators" / f"{name}.cc", []),
        (HERE / "operators" / "module.cc", [f"-DBIND=bind_{name}"]),
    ]
    sources = sorted((CSRC / "targets").glob(f"{name}_cuda*.cu"))
    return build(sources, front_end, sanitize, defines, arch, cxx)


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
    paths = [str(ROOT / "tests"), str(ROOT)]
    code = CHILD.format(
        paths=paths, path=str(program.path), sanitize=program.sanitize, script=script
    )
    name = LIBRARIES[program.sanitize]
    found = subprocess.run(
        ["g++", f"-print-file-name={name}"], check=True, capture_output=True, text=True
    )
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

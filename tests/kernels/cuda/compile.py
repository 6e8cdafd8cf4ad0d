"""Compiling for the emulator: each step once for the contents of all that goes into it.

A step is a list of commands; in their words, FOLDER stands for an empty folder and TARGET for the
one file that is kept.
"""

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CSRC = ROOT / "csrc"
CACHE = ROOT / "build" / "cuda_emulator"
NVCC = shutil.which("nvcc")

# Contraction is nvcc's to decide: what is a multiplication and an addition in the PTX stays two.
GXX = ["g++", "-std=c++17", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-w"]
# Libraries of the same names are open at once and must not share a variable.
GXX += ["-march=native", "-fno-gnu-unique"]
SANITIZERS = {
    None: [],
    "address": ["-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-g1", "-fsanitize=thread"],
}
DEFINES = {None: [], "address": ["-DEMU_ADDRESS"], "thread": ["-DEMU_THREAD"]}

FOLDER = "tests/kernels/cuda"
ENGINE = f"{FOLDER}/engine/*"
HEADERS = "csrc/**/*.h"
DEVICE = (HEADERS, "csrc/**/*.cuh", f"{FOLDER}/**/*.cuh")


def files(*patterns):
    """Own files that a step depends on."""
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file())


def cached(steps, suffix, depends):
    """The result of the steps, which run unless they have before."""
    digest = hashlib.sha256(repr((steps, suffix)).encode())
    for path in depends:
        digest.update(str(path).encode() + path.read_bytes())
    target = CACHE / f"{digest.hexdigest()[:24]}{suffix}"
    if target.exists():
        return target
    folder = CACHE / f"{target.stem}.{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / target.name
    for step in steps:
        words = [w.replace("TARGET", str(unfinished)).replace("FOLDER", str(folder)) for w in step]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    unfinished.replace(target)
    shutil.rmtree(folder)
    return target


@functools.lru_cache(None)
def toolkit():
    """The folder of CUDA's headers, from nvcc."""
    command = [NVCC, "--dryrun", "-E", "-x", "cu", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return re.search(r'INCLUDES="-I([^" ]+)"', done.stderr)[1]


def includes(*folders):
    return [f"-I{folder}" for folder in (*folders, CSRC, HERE, toolkit())]


def engine_objects(sanitize):
    """The engine is never instrumented, or the sanitizers would watch the emulator."""
    for source in sorted((HERE / "engine").glob("*.cc")):
        command = [*GXX, "-O2", *DEFINES[sanitize], *includes(), "-c", str(source), "-o", "TARGET"]
        yield [command], ".o", files(ENGINE)


def cxx_object(source, flags):
    """Host code around an operator, for pybind11."""
    import pybind11

    own = includes(pybind11.get_include(), sysconfig.get_path("include"))
    command = [*GXX, "-O1", "-fvisibility=hidden", *own, *flags]
    command += ["-c", str(source), "-o", "TARGET"]
    return [command], ".o", [Path(source), *files(HEADERS, ENGINE, f"{FOLDER}/operators/*.h")]


def ptx_object(source, defines, arch, sanitize):
    """nvcc compiles the host's side; the PTX that it leaves behind is translated."""
    virtual = arch.replace("sm", "compute")
    # code=compute_...: no ptxas, nothing here needs machine code
    host = [NVCC, "-std=c++17", "-lineinfo", f"-gencode=arch={virtual},code={virtual}"]
    host += [f"-I{CSRC}", f"-I{HERE}", "-Xcompiler=-fPIC,-fno-gnu-unique,-O1", *defines]
    host += ["--keep", "--keep-dir", "FOLDER", "-c", str(source), "-o", "FOLDER/host.o"]
    ptx, translated = f"FOLDER/{Path(source).stem}.ptx", "FOLDER/device.cc"
    translate = [sys.executable, str(HERE / "ptx" / "translate.py"), ptx, translated]
    device = [*GXX, "-O1", *SANITIZERS[sanitize], *includes(HERE / "ptx"), *extra_flags()]
    device += ["-c", translated, "-o", "FOLDER/device.o"]
    merge = ["ld", "-r", "FOLDER/host.o", "FOLDER/device.o", "-o", "TARGET"]
    depends = [Path(source), *files(*DEVICE, ENGINE, f"{FOLDER}/ptx/*")]
    return [host, translate, device, merge], ".o", depends


def source_object(source, defines, sanitize):
    """g++ compiles a copy in which __shared__ variables have become calls of the engine."""
    rewrite = [sys.executable, str(HERE / "source" / "rewrite.py"), str(source), "FOLDER"]
    own = ["-include", str(HERE / "source" / "cuda_source.h"), *includes("FOLDER", HERE / "source")]
    command = [*GXX, "-O1", *SANITIZERS[sanitize], *own, *defines, *extra_flags()]
    command += ["-x", "c++", "-c", "FOLDER/main.cu", "-o", "TARGET"]
    depends = [Path(source), *files(*DEVICE, ENGINE, f"{FOLDER}/source/*")]
    return [rewrite, command], ".o", depends


def extra_flags():
    return os.environ.get("EMULATOR_FLAGS", "").split()


def library(sources, front_end, sanitize, defines, arch, cxx):
    """The path of the shared library; see emulator.build."""
    units = [*engine_objects(sanitize), *(cxx_object(path, flags) for path, flags in cxx)]
    for source in (HERE / name for name in sources):
        if front_end == "ptx":
            units.append(ptx_object(source, list(defines), arch, sanitize))
        elif front_end == "source":
            units.append(source_object(source, list(defines), sanitize))
        else:
            raise ValueError(f"front_end: expected 'ptx' or 'source', got {front_end!r}")
    jobs = int(os.environ.get("MAX_JOBS", os.cpu_count() or 1))
    with ThreadPoolExecutor(jobs) as pool:
        objects = [str(path) for path in pool.map(lambda unit: cached(*unit), units)]
    # -Bsymbolic: the stand-in for the runtime wins even where Paddle has loaded the real one
    link = ["g++", "-shared", *SANITIZERS[sanitize], "-Wl,-Bsymbolic", *objects, "-o", "TARGET"]
    return cached([link], ".so", [])

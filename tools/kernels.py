"""Builds the kernels' pybind11 module alone, without Paddle: python -m tools.kernels [--sanitize].

The result, _kernels.so, is imported like any module. With --sanitize it reports undefined behaviour
and what is read or written outside of an array; Python must then be started with the sanitizer's
library in LD_PRELOAD, which the command prints.
"""

import argparse
import subprocess
import sysconfig
from pathlib import Path

import pybind11

CSRC = Path(__file__).resolve().parent.parent / "csrc"
# Vectors wider than the target's only pass between functions that are inlined: no ABI is at stake.
FLAGS = ["-std=c++17", "-fPIC", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += ["-Wall", "-Wno-psabi"]
FAST = ["-O3", "-g0"]
SANITIZE = ["-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def build(folder, sanitize=False):
    """Compiles and links; returns the path of the module."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mode = SANITIZE if sanitize else FAST
    includes = [
        f"-I{path}" for path in (CSRC, pybind11.get_include(), sysconfig.get_path("include"))
    ]
    objects = []
    for source in sorted([*CSRC.glob("targets/*.cc"), *CSRC.glob("pybind/*.cc")]):
        objects.append(folder / f"{source.stem}.o")
        command = ["g++", *FLAGS, *mode, *includes, "-c", str(source), "-o", str(objects[-1])]
        subprocess.run(command, check=True)
    module = folder / "_kernels.so"
    subprocess.run(["g++", "-shared", *FLAGS, *mode, *objects, "-o", module], check=True)
    return module


def sanitizer_library():
    """The library that has to be loaded before Python when the module is sanitized."""
    found = subprocess.run(
        ["g++", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    )
    return found.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default="build/kernels", help="where to build")
    parser.add_argument("--sanitize", action="store_true", help="report memory errors")
    arguments = parser.parse_args()
    print(build(arguments.folder, arguments.sanitize))
    if arguments.sanitize:
        print(f"LD_PRELOAD={sanitizer_library()} ASAN_OPTIONS=detect_leaks=0")


if __name__ == "__main__":
    main()

"""NVRTC, CUDA's compiler as a library: of older releases, whose nvcc cannot be had from PyPI.

It compiles for the GPU alone. The sources are not written for that, so everything counts as the
GPU's here, and nvrtc_host.h stands for the headers of the host: launchers are then functions that
the GPU could call, and bring all kernels that they launch.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from tools.cuda_check.nvcc import CSRC
from tools.cuda_check.wheels import file_of

# Distribution, library, and the GPUs to compile for: the one that CUDA 13 does not know any more,
# and with the CUDA that Paddle 2.6 is built with those that the package is built for.
RELEASES = {
    "11.8": ("nvidia-cuda-nvrtc-cu11", "libnvrtc.so.11.2"),
    "12.9": ("nvidia-cuda-nvrtc-cu12", "libnvrtc.so.12"),
}
ARCHITECTURES = {"11.8": ("sm_70", "sm_80", "sm_90"), "12.9": ("sm_70",)}
# As nvcc's; ptxas 11.8 does so in one kernel more, of the gradient of a gradient in double.
MOST_SPILLED = 32
_STANDARD_LIBRARY = "nvidia-cuda-cccl-cu12"
_HOST = Path(__file__).with_name("nvrtc_host.h")
_NOT_THERE = ["algorithm", "cmath", "cstddef", "cstdint", "cstdlib", "cstring", "type_traits"]
_NOT_THERE += ["cuda_runtime.h", "cuda_runtime_api.h"]
# "extern declaration is treated as a static definition": in other files, which are not linked.
_HARMLESS = ("-diag-suppress=20044",)
_OLD_GPU = "Architectures prior to '<compute/sm>_75' are deprecated"


def _strings(texts: list[str]) -> ctypes.Array:
    """As an array of C's."""
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


class Nvrtc:
    """One release of the library."""

    def __init__(self, release: str):
        self._library = ctypes.CDLL(str(file_of(*RELEASES[release])))
        self._include = file_of(_STANDARD_LIBRARY, "cuda/std/type_traits").parents[2]

    def compile_source(self, source: Path, arch: str) -> str:
        """Compile for one GPU, warnings being errors; returns the report.

        11.8 leaves the thread that calls it with another locale.
        """
        program = ctypes.c_void_p()
        text, path = source.read_bytes(), str(source).encode()
        empty, names = _strings([""] * len(_NOT_THERE)), _strings(_NOT_THERE)
        self._library.nvrtcCreateProgram(
            ctypes.byref(program), text, path, len(_NOT_THERE), empty, names
        )
        options = [f"-arch={arch}", "-std=c++17", "-default-device", "--ptxas-options=-v"]
        options += [f"-I{path}" for path in (CSRC, self._include, _HOST.parent)]
        options += [f"--pre-include={_HOST.name}", *_HARMLESS]
        error = self._library.nvrtcCompileProgram(program, len(options), _strings(options))
        report = self._log(program)
        self._library.nvrtcDestroyProgram(ctypes.byref(program))
        if error != 0 or "warning" in report.replace(f"warning: {_OLD_GPU}", ""):
            raise SystemExit(f"NVRTC: {source} for {arch}:\n{report}")
        return report

    def _log(self, program: ctypes.c_void_p) -> str:
        size = ctypes.c_size_t()
        self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._library.nvrtcGetProgramLog(program, text)
        return text.value.decode()

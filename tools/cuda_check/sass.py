"""The instructions that ptxas chose, as nvdisasm shows them: are they those that are meant?"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tools.cuda_check.report import Kernel, plain_names
from tools.cuda_check.wheels import file_of

_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)", re.MULTILINE)
_INSTRUCTION = re.compile(r"\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]+)")


@dataclasses.dataclass(frozen=True)
class Rule:
    """What kernels must have, or must not have."""

    kernels: str  # how their names begin
    least: int  # the number of the first kind of GPU that it is about
    instructions: str
    wanted: bool = True

    def broken_by(self, kernel: Kernel) -> bool:
        """Whether a kernel has what it must not have, or lacks what it must have."""
        if int(kernel.arch.split("_")[1]) < self.least or not re.match(self.kernels, kernel.name):
            return False
        there = any(re.match(self.instructions, found) for found in kernel.instructions)
        return there != self.wanted


_PRODUCT = r"deform_conv2d_(forward|backward_data|backward_weight)<"
_HALF = r"(Float16|BFloat16),"
RULES = (
    # four channels of a neighbour at a time
    Rule(_PRODUCT + r"(float|double),", 75, r"LDG\.E\.128"),
    Rule(_PRODUCT + _HALF, 75, r"LDG\.E\.64"),
    # products of half types on tensor cores, others never
    Rule(_PRODUCT + _HALF, 80, r"HMMA\.1688\.F32\.TF32"),
    Rule(_PRODUCT + r"(float|double),", 75, r"[HD]MMA", wanted=False),
    # four additions at a time
    Rule(r"deform_conv2d_backward_data<(float|Float16|BFloat16),", 90, r"REDG\.E\.ADD\.F32x4"),
    # packs of elements
    Rule(r"sce::pass_kernel<sce::\w+, \w+, \w+, [248],", 75, r"LDG\.E\.128"),
    Rule(r"sce::pass_kernel<sce::\w+, \w+, \w+, [248],", 75, r"STG\.E\.128"),
)


def instructions(cubin: Path) -> dict[str, frozenset[str]]:
    """{kernel: its instructions} of a compiled file."""
    command = [str(file_of("nvidia-cuda-nvdisasm", "bin/nvdisasm")), "-c", str(cubin)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    _, *parts = _SECTION.split(text)
    names = plain_names(parts[::2])
    return {name: frozenset(_INSTRUCTION.findall(part)) for name, part in zip(names, parts[1::2])}


def broken(kernel: Kernel) -> Iterator[str]:
    """Yield what is wrong with a kernel's instructions."""
    for rule in RULES:
        if rule.broken_by(kernel):
            yield f"{'lacks' if rule.wanted else 'has'} {rule.instructions}"

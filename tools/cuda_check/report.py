"""What ptxas says of the kernels that it compiled."""

from __future__ import annotations

import dataclasses
import re
import subprocess

# The older one writes "ptxas         ." in front of the bytes.
_ENTRY = re.compile(
    r"Compiling entry function '(?P<symbol>\w+)' for '(?P<arch>\w+)'.*?"
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One kernel, compiled for one kind of GPU."""

    name: str
    arch: str
    registers: int
    shared: int  # bytes for each block
    spilled: int  # bytes stored and loaded
    instructions: frozenset[str] = frozenset()  # where somebody has looked at them


def plain_names(symbols: list[str]) -> list[str]:
    """Kernels' names as in the sources, without our namespaces."""
    text = "\n".join(symbols)
    plain = subprocess.run(["c++filt"], input=text, capture_output=True, text=True, check=True)
    return [re.sub(r"paddle_ops::|cuda::|^void ", "", name) for name in plain.stdout.splitlines()]


def parse(report: str) -> list[Kernel]:
    """The kernels in ptxas's report."""
    found = [match.groupdict() for match in _ENTRY.finditer(report)]
    return [
        Kernel(
            name,
            kernel["arch"],
            int(kernel["registers"]),
            sum(int(bytes_) for bytes_ in re.findall(r"(\d+) bytes smem", kernel["rest"])),
            int(kernel["stores"]) + int(kernel["loads"]),
        )
        for name, kernel in zip(plain_names([kernel["symbol"] for kernel in found]), found)
    ]


def lines(kernels: list[Kernel], verbose: bool) -> list[str]:
    """One line for each kernel, or for the worst one of each name and architecture."""
    worst: dict[tuple[str, ...], Kernel] = {}
    for kernel in kernels:
        key = (kernel.arch, kernel.name if verbose else kernel.name.split("<")[0].split("(")[0])
        known = worst.get(key)
        if known is None or (kernel.registers, kernel.shared) > (known.registers, known.shared):
            worst[key] = kernel
    return [
        f"{k.arch:6} {k.registers:4} registers {k.shared:6} B shared {k.spilled:3} spilled {name}"
        for (_, name), k in sorted(worst.items())
    ]

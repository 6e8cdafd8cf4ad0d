"""What no GPU kernel of deform_conv2d can be faster than: the table of docs/gpu.md.

python -m tools.perf.roofline: for each shape, the operations, and the bytes that go through the
GPU's memory in two ways to compute it, in fp32. `columns`: the sampled columns are written as a
matrix and read by a matrix product, as Paddle and torchvision do. `fused`: this package's kernels,
which form them a tile at a time and keep none. Caches count as perfect in both.
"""

from __future__ import annotations

import dataclasses
import math

from tools.perf.cases import CASES, FORWARD, FORWARD_BACKWARD, DeformConvCase


@dataclasses.dataclass(frozen=True)
class Gpu:
    """The vendor's figures."""

    name: str
    flops: float  # fp32 without tensor cores, per second
    bandwidth: float  # bytes per second


GPUS = (Gpu("H200", 67e12, 4.8e12), Gpu("A100 80 GB", 19.5e12, 2.04e12))
# Passes over the columns. Forward: written, read. Backward: their gradient is written, read for
# grad_x and read for grad_offset; the columns are written and read anew for grad_weight.
COLUMN_PASSES = {FORWARD: 2, FORWARD_BACKWARD: 7}
# Passes over an image of x in the layout with channels last beside those in Paddle's, which each
# result and input takes once. Forward: written, read. Backward: written, read for grad_offset and
# for grad_weight; grad_x is cleared, read and written by the additions, and read to be stored.
IMAGE_PASSES = {FORWARD: 2, FORWARD_BACKWARD: 2 + 3 + 4}


def column_bytes(case: DeformConvCase, direction: str) -> int:
    """Return the bytes moved with a matrix of columns."""
    n, _, oh, ow = case.out
    columns = n * case.x[1] * case.kernel**2 * oh * ow * 4
    return case.bytes(direction, "float32") + COLUMN_PASSES[direction] * columns


def fused_bytes(case: DeformConvCase, direction: str) -> int:
    """Return the bytes moved without one."""
    image = math.prod(case.x) * 4
    return case.bytes(direction, "float32") + IMAGE_PASSES[direction] * image


def table() -> str:
    """Return the table as Markdown."""
    head = ["case", "direction", "GFLOP", "MB columns", "MB fused"]
    for gpu in GPUS:
        head += [f"{gpu.name}: µs products", "µs columns", "µs fused"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for case in CASES.values():
        if not isinstance(case, DeformConvCase) or case.huge:
            continue
        for direction in (FORWARD, FORWARD_BACKWARD):
            flops = case.flops(direction)
            moved = column_bytes(case, direction), fused_bytes(case, direction)
            cells = [case.name, direction, f"{flops / 1e9:.3g}", *(f"{b / 1e6:.0f}" for b in moved)]
            for gpu in GPUS:
                cells.append(f"{flops / gpu.flops * 1e6:.0f}")
                cells += [f"{b / gpu.bandwidth * 1e6:.0f}" for b in moved]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())

"""What is timed, as data: shapes, and the bytes and floating-point operations they stand for.

The work follows from the shapes alone, so that a rate never depends on how a library goes about
it: bytes count every input and every result once, operations are those of the formula.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import ClassVar, Dict, Tuple, Union

import numpy as np

from tools.perf.rounding import rounded

FORWARD = "forward"
FORWARD_BACKWARD = "forward+backward"
DIRECTIONS = (FORWARD, FORWARD_BACKWARD)

OFFSETS = ("zero", "normal", "far")
ITEM_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}

Shapes = Dict[str, Tuple[int, ...]]
Tensors = Dict[str, np.ndarray]


def _bytes(inputs: Shapes, out: tuple[int, ...], direction: str, dtype: str) -> int:
    """Return the bytes of a pass that touches each tensor once.

    The backward reads the inputs and the gradient of the output, and writes a gradient for each
    input; the labels of a loss get none.
    """
    sizes = {name: math.prod(shape) for name, shape in inputs.items()}
    result, read = math.prod(out), sum(sizes.values())
    elements = read + result
    if direction == FORWARD_BACKWARD:
        gradients = sum(size for name, size in sizes.items() if name != "label")
        elements += result + read + gradients
    return elements * ITEM_BYTES[dtype]


@dataclass(frozen=True)
class DeformConvCase:
    """One deformable convolution: square kernel, stride and padding, dilation 1."""

    op: ClassVar[str] = "deform_conv2d"
    name: str
    origin: str
    # (n, c, h, w)
    x: tuple[int, int, int, int]
    # output channels
    o: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    groups: int = 1
    deformable_groups: int = 1
    mask: bool = True
    bias: bool = False
    # run only when asked for by name
    huge: bool = False

    @property
    def out(self) -> tuple[int, int, int, int]:
        """The output's shape."""
        n, _, h, w = self.x
        reach = 2 * self.padding - self.kernel
        return n, self.o, (h + reach) // self.stride + 1, (w + reach) // self.stride + 1

    def inputs(self) -> Shapes:
        """Return the shapes of the inputs by name, without those that are absent."""
        n, c, _, _ = self.x
        _, _, oh, ow = self.out
        taps = self.deformable_groups * self.kernel**2
        shapes = {
            "x": self.x,
            "offset": (n, 2 * taps, oh, ow),
            "weight": (self.o, c // self.groups, self.kernel, self.kernel),
        }
        if self.bias:
            shapes["bias"] = (self.o,)
        if self.mask:
            shapes["mask"] = (n, taps, oh, ow)
        return shapes

    def arguments(self) -> dict[str, int]:
        """Return the integer arguments as deform_conv2d names them."""
        return {
            "stride": self.stride,
            "padding": self.padding,
            "deformable_groups": self.deformable_groups,
            "groups": self.groups,
        }

    def flops(self, direction: str) -> int:
        """Return the operations of the matrix products; sampling is not counted.

        The backward has two products of the same size, for the columns and for the weight.
        """
        n, o, oh, ow = self.out
        products = 1 if direction == FORWARD else 3
        return products * 2 * n * o * oh * ow * self.x[1] // self.groups * self.kernel**2

    def bytes(self, direction: str, dtype: str) -> int:
        """Return the bytes of all inputs and results, each once."""
        return _bytes(self.inputs(), self.out, direction, dtype)

    def tensors(self, offsets: str, dtype: str) -> Tensors:
        """Return the inputs and the gradient of the output, in fp32 with values of `dtype`."""
        random = _random(self.name)
        tensors = {name: _normal(random, shape) for name, shape in self.inputs().items()}
        tensors["weight"] /= np.float32(math.sqrt(math.prod(tensors["weight"].shape[1:])))
        tensors["offset"] = _offsets(random, tensors["offset"], offsets)
        if self.mask:
            random.random(out=tensors["mask"], dtype=np.float32)
        tensors["grad_out"] = _normal(random, self.out)
        return {name: rounded(tensor, dtype) for name, tensor in tensors.items()}


@dataclass(frozen=True)
class CrossEntropyCase:
    """One sigmoid cross entropy without reduction and without weights."""

    op: ClassVar[str] = "sigmoid_cross_entropy_with_logits"
    name: str
    origin: str
    out: tuple[int, ...]
    huge: bool = False

    def inputs(self) -> Shapes:
        """Return the shapes of the inputs by name."""
        return {"x": self.out, "label": self.out}

    def flops(self, direction: str) -> int:
        """Return the operations, an exponential or a logarithm counting as one.

        Forward: abs, exp, log1p, max, x * y, subtraction, addition. Backward: exp, addition,
        division, subtraction of y, product with the gradient of the output.
        """
        return math.prod(self.out) * (7 if direction == FORWARD else 12)

    def bytes(self, direction: str, dtype: str) -> int:
        """Return the bytes of all inputs and results, each once."""
        return _bytes(self.inputs(), self.out, direction, dtype)

    def tensors(self, offsets: str, dtype: str) -> Tensors:
        """Return the inputs and the gradient of the output, in fp32 with values of `dtype`."""
        random = _random(self.name)
        x = _normal(random, self.out)
        # Paddle's own gradient is wrong at 0, which fp32 noise hits once in 2^23 elements.
        x[x == 0] = 1
        label = (random.random(self.out, dtype=np.float32) < 0.5).astype(np.float32)
        tensors = {"x": x, "label": label, "grad_out": _normal(random, self.out)}
        return {name: rounded(tensor, dtype) for name, tensor in tensors.items()}


Case = Union[DeformConvCase, CrossEntropyCase]


def _random(name: str) -> np.random.Generator:
    """Return the generator of a case: the same numbers in every run."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def _normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.standard_normal(shape, dtype=np.float32)


def _offsets(random: np.random.Generator, normal: np.ndarray, kind: str) -> np.ndarray:
    """Return offsets in pixels: none, N(0, 2), or uniform within 10.

    They are odd multiples of 2^-11. So fp32 adds them to a pixel's position exactly, and fp32 and
    the fp64 reference find every sample in the same cell: the gradient jumps between cells.
    """
    if kind == "zero":
        return np.zeros_like(normal)
    if kind == "normal":
        pixels = normal * np.float32(2)
    else:
        pixels = random.uniform(-10, 10, normal.shape).astype(np.float32)
    return (np.floor(pixels * 1024) + np.float32(0.5)) / np.float32(1024)


_DEFORM_CONV2D = (
    DeformConvCase("S1", "ResNet-50 c3", (1, 128, 100, 168), 128),
    DeformConvCase("S2", "ResNet-50 c4", (1, 256, 50, 84), 256),
    DeformConvCase("S3", "ResNet-50 c5", (1, 512, 50, 84), 512, stride=2),
    DeformConvCase("S4", "PP-YOLO c5", (8, 512, 20, 20), 512),
    DeformConvCase("S5", "DLA-34 up", (1, 128, 76, 136), 64, bias=True),
    DeformConvCase("S6", "EDVR L1", (4, 64, 64, 64), 64, deformable_groups=8, bias=True),
    DeformConvCase("S7", "BasicVSR++", (1, 128, 180, 320), 64, deformable_groups=16, bias=True),
    DeformConvCase("S8", "OCR ResNet-50", (2, 128, 100, 100), 128, deformable_groups=2),
    DeformConvCase("S9", "VFNet P3", (1, 256, 100, 168), 256, mask=False),
    DeformConvCase("S10", "BiRefNet", (1, 64, 64, 64), 64, kernel=7, padding=3),
    DeformConvCase("S11", "ResNeXt-101 32x4d", (1, 256, 100, 168), 256, groups=32),
    # The published table of Paddle's pull request 74324; its third row has 446 images on a GPU.
    DeformConvCase("C1", "Config1", (79220, 3, 4, 4), 6, stride=2, padding=3, mask=False),
    DeformConvCase("C2", "Config2", (5070, 3, 5, 5), 6, stride=2, padding=3, mask=False),
    DeformConvCase("C3", "Config3, N = 4", (4, 128, 200, 200), 128, stride=2, deformable_groups=2),
    DeformConvCase("B1", "2^31 columns", (1, 240, 1024, 1024), 1, mask=False, huge=True),
    DeformConvCase("B2", "2^31 offsets", (5070448, 3, 5, 5), 6, huge=True),
)
_CROSS_ENTROPY = (
    CrossEntropyCase("E1", "32 M elements", (32768, 1024)),
    CrossEntropyCase("E2", "multi-label head", (64, 20)),
)

CASES: dict[str, Case] = {case.name: case for case in (*_DEFORM_CONV2D, *_CROSS_ENTROPY)}
OPS = tuple(dict.fromkeys(case.op for case in CASES.values()))
SEED_TABLE = ("C1", "C2", "C3")

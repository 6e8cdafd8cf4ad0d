"""This package, Paddle's own operators, a memory copy as a yardstick, and the list of all.

To add a provider, write a class like those here or in peers.py and list it in PROVIDERS; nothing
else knows their names.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.vision import ops as vision

import paddle_ops
from paddle_ops import _lib
from tools.perf.cases import FORWARD, FORWARD_BACKWARD, Case, DeformConvCase, Tensors
from tools.perf.peers import Dense, OnnxRuntime, OpenVino, Torch
from tools.perf.provider import Provider, Results
from tools.perf.rounding import bfloat16_bits, from_bfloat16_bits

# Fewer bytes than this are copied by one thread: starting another costs more.
_COPY_ALONE = 1 << 20


class _InPaddle(Provider):
    """What is called on Paddle tensors, in the dynamic graph."""

    # by operator: takes the inputs and arguments of a case
    functions: ClassVar[dict[str, Any]]

    @classmethod
    def available(cls) -> bool:
        return True

    def __init__(self, case: Case, tensors: Tensors, dtype: str, threads: int):
        paddle.base.core.set_num_threads(threads)
        paddle_ops.set_num_threads(threads)
        self._function = self.functions[case.op]
        self._arguments = _arguments(case)
        loaded = {name: paddle.to_tensor(value).astype(dtype) for name, value in tensors.items()}
        self._grad_out = loaded.pop("grad_out")
        self._constants = loaded
        self._variables = {name: tensor.detach() for name, tensor in loaded.items()}
        self._wanted = {name: t for name, t in self._variables.items() if name != "label"}
        for tensor in self._wanted.values():
            tensor.stop_gradient = False

    def forward(self) -> Results:
        return {"out": self._function(**self._constants, **self._arguments)}

    def forward_backward(self) -> Results:
        out = self._function(**self._variables, **self._arguments)
        gradients = paddle.grad([out], list(self._wanted.values()), [self._grad_out])
        return {"out": out, **dict(zip(self._wanted, gradients))}

    def to_numpy(self, value: Any) -> np.ndarray:
        wide = value if value.dtype == paddle.float64 else value.astype("float32")
        return wide.numpy()


class PaddleOps(_InPaddle):
    """This package, called as a user does; the operator picks the width of its indices."""

    name = "paddle_ops"
    functions: ClassVar[dict[str, Any]] = {
        "deform_conv2d": paddle_ops.deform_conv2d,
        "sigmoid_cross_entropy_with_logits": paddle_ops.sigmoid_cross_entropy_with_logits,
    }

    @classmethod
    def version(cls) -> str:
        return f"paddle_ops {paddle_ops.__version__}"

    @classmethod
    def supports(cls, case: Case, direction: str, dtype: str) -> bool:
        return True


class Paddle(_InPaddle):
    """Paddle's own operators."""

    name = "paddle"
    functions: ClassVar[dict[str, Any]] = {
        "deform_conv2d": vision.deform_conv2d,
        "sigmoid_cross_entropy_with_logits": lambda x, label: F.binary_cross_entropy_with_logits(
            x, label, reduction="none"
        ),
    }

    @classmethod
    def version(cls) -> str:
        return f"paddle {paddle.__version__}"

    @classmethod
    def supports(cls, case: Case, direction: str, dtype: str) -> bool:
        """Refuse half types, which have no CPU kernel, and sizes at which it crashes."""
        return dtype in ("float32", "float64") and not case.huge


class _Kernels(Provider):
    """This package's kernels without Paddle, on NumPy arrays, with a forced width of indices."""

    index_bits: ClassVar[int]

    @classmethod
    def available(cls) -> bool:
        try:
            return _lib.kernels() is not None
        except ImportError:
            return False

    @classmethod
    def version(cls) -> str:
        return f"paddle_ops {paddle_ops.__version__}"

    @classmethod
    def supports(cls, case: Case, direction: str, dtype: str) -> bool:
        return cls.index_bits == 64 or not case.huge

    def __init__(self, case: Case, tensors: Tensors, dtype: str, threads: int):
        convert = bfloat16_bits if dtype == "bfloat16" else np.dtype(dtype).type
        self._inputs = {name: convert(value) for name, value in tensors.items()}
        self._grad_out = self._inputs.pop("grad_out")
        self._common = {"num_threads": threads, "index_bits": self.index_bits}
        kernels = _lib.kernels()
        self._forward = getattr(kernels, f"{case.op}_forward")
        self._backward = getattr(kernels, f"{case.op}_backward")
        if isinstance(case, DeformConvCase):
            self._common.update(
                strides=[case.stride] * 2,
                paddings=[case.padding] * 4,
                deformable_groups=case.deformable_groups,
                groups=case.groups,
            )

    def forward(self) -> Results:
        out = np.empty_like(self._grad_out)
        self._forward(out=out, **self._inputs, **self._common)
        return {"out": out}

    def forward_backward(self) -> Results:
        results = self.forward()
        for name, value in self._inputs.items():
            if name != "label":
                results[name] = np.empty_like(value)
        gradients = {f"grad_{name}": value for name, value in results.items() if name != "out"}
        read = {name: value for name, value in self._inputs.items() if name != "bias"}
        self._backward(grad_out=self._grad_out, **read, **gradients, **self._common)
        return results

    def to_numpy(self, value: Any) -> np.ndarray:
        return from_bfloat16_bits(value) if value.dtype == np.uint16 else value


class KernelsInt32(_Kernels):
    """The kernels with 32-bit indices."""

    name = "paddle_ops/int32"
    index_bits = 32


class KernelsInt64(_Kernels):
    """The kernels with 64-bit indices."""

    name = "paddle_ops/int64"
    index_bits = 64


class Copy(Provider):
    """A yardstick: a copy between arrays in use that moves as many bytes as the case must."""

    name = "copy"
    computes = False

    @classmethod
    def available(cls) -> bool:
        return True

    @classmethod
    def version(cls) -> str:
        return f"numpy {np.__version__}"

    @classmethod
    def supports(cls, case: Case, direction: str, dtype: str) -> bool:
        return not case.huge

    def __init__(self, case: Case, tensors: Tensors, dtype: str, threads: int):
        self._parts = {}
        most = case.bytes(FORWARD_BACKWARD, dtype) // 2
        source, target = np.ones(most, np.uint8), np.ones(most, np.uint8)
        for direction in (FORWARD, FORWARD_BACKWARD):
            size = case.bytes(direction, dtype) // 2
            step = math.ceil(size / (threads if size > _COPY_ALONE else 1))
            self._parts[direction] = [
                (target[at : min(at + step, size)], source[at : min(at + step, size)])
                for at in range(0, size, step)
            ]
        self._pool = ThreadPoolExecutor(threads)

    def _copy(self, direction: str) -> Results:
        parts = self._parts[direction]
        if len(parts) == 1:
            np.copyto(*parts[0])
        else:
            list(self._pool.map(lambda part: np.copyto(*part), parts))
        return {}

    def forward(self) -> Results:
        return self._copy(FORWARD)

    def forward_backward(self) -> Results:
        return self._copy(FORWARD_BACKWARD)


def _arguments(case: Case) -> dict[str, int]:
    return case.arguments() if isinstance(case, DeformConvCase) else {}


# In the order of the table's columns. The first of these in a run is what others are divided by.
PROVIDERS: dict[str, type[Provider]] = {
    provider.name: provider
    for provider in (
        PaddleOps,
        KernelsInt32,
        KernelsInt64,
        Paddle,
        Torch,
        OnnxRuntime,
        OpenVino,
        Dense,
        Copy,
    )
}
# What stands for this package, by the width of indices that is asked for.
BY_INDEX = {"auto": PaddleOps.name, "int32": KernelsInt32.name, "int64": KernelsInt64.name}

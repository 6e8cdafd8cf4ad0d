"""Compares what the GPU's kernels give with the CPU's kernels in float64."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Iterator

import numpy as np

from tools.gpu_check.device import Host
from tools.perf.cases import Case, CrossEntropyCase, DeformConvCase
from tools.perf.rounding import bfloat16_bits, from_bfloat16_bits

DTYPES = ("float32", "float64", "float16", "bfloat16")
# Of the norm of the error to the norm of the result: what the operators promise, and for half types
# one rounding.
TOLERANCES = {"float32": 2e-6, "float64": 1e-13, "float16": 6e-4, "bfloat16": 5e-3}

# Small, for each way that the kernels cut their work: all types and options run on these.
SMALL: tuple[Case, ...] = (
    DeformConvCase("K1", "few outputs", (3, 6, 9, 13), 4, stride=2, deformable_groups=3),
    DeformConvCase("K2", "groups", (2, 12, 7, 10), 80, groups=4, deformable_groups=3, bias=True),
    DeformConvCase("K3", "many outputs", (1, 40, 11, 8), 150, kernel=2, mask=False),
    DeformConvCase("K4", "small images", (300, 3, 4, 5), 6, stride=2, padding=3),
    CrossEntropyCase("K5", "no whole vectors", (37, 11)),
)

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Verdict:
    """One comparison."""

    case: str
    dtype: str
    options: dict[str, Any]
    # the largest error of out and gradients, by name
    errors: dict[str, float]

    @property
    def right(self) -> bool:
        """Whether every error is a number within the tolerance."""
        return all(error <= TOLERANCES[self.dtype] for error in self.errors.values())


def variants(case: Case) -> Iterator[dict[str, Any]]:
    """Yield the options that a case is checked with."""
    yield {}
    yield {"index_bits": 64}
    if isinstance(case, CrossEntropyCase):
        yield {"normalize": True, "ignore_index": 1}
        return
    yield {"boundary_grad": "torchvision"}
    yield {"deterministic": True}
    yield {"scratch_bytes": 1}


def verify(
    case: Case, dtype: str, options: dict[str, Any], gpu: ModuleType, cpu: ModuleType, device: Host
) -> Verdict:
    """Run forward and backward on both and compare."""
    tensors = {name: as_stored(value, dtype) for name, value in case.tensors("far", dtype).items()}
    got = compute(case, tensors, options, gpu, device)
    for_cpu = {k: v for k, v in options.items() if k not in ("deterministic", "scratch_bytes")}
    exact = {name: as_double(value) for name, value in tensors.items()}
    right = compute(case, exact, for_cpu, cpu, Host())
    errors = {name: _error(as_double(got[name]), right[name]) for name in right}
    if options.get("deterministic"):
        again = compute(case, tensors, options, gpu, device)
        same = all(got[name].tobytes() == again[name].tobytes() for name in got)
        errors["repeated"] = 0.0 if same else float("inf")
    return Verdict(case.name, dtype, options, errors)


def compute(
    case: Case, tensors: Inputs, options: dict[str, Any], kernels: ModuleType, device: Host
) -> Inputs:
    """Return out and all gradients under their inputs' names."""
    call = Call(case, tensors, options, kernels, device)
    call.forward()
    call.backward()
    results = {"out": call.out, **call.gradients}
    return {name: device.download(value) for name, value in results.items()}


class Call:
    """A case whose tensors are on a device, ready to be run."""

    def __init__(self, case, tensors, options, kernels, device):
        self._kernels, self._op = kernels, case.op
        on_device = {name: device.upload(value) for name, value in tensors.items()}
        wanted = [name for name in case.inputs() if name != "label"]
        self.out = device.upload(np.zeros(case.out, tensors["x"].dtype))
        self.gradients = {name: device.upload(np.zeros_like(tensors[name])) for name in wanted}
        self._both = dict(options)
        if case.op == "deform_conv2d":
            arguments = case.arguments()
            self._both["strides"] = [arguments.pop("stride")] * 2
            self._both["paddings"] = [arguments.pop("padding")] * 4
            self._both.update(arguments)
        argument = device.argument
        self._inputs = {name: argument(on_device[name]) for name in case.inputs()}
        self._grad_out = argument(on_device["grad_out"])
        self._out = argument(self.out)
        self._gradients = {f"grad_{name}": argument(g) for name, g in self.gradients.items()}
        self._kept = on_device  # the arguments are bare addresses

    def forward(self):
        """Write `out`."""
        both = {
            name: value
            for name, value in self._both.items()
            if name not in ("boundary_grad", "deterministic")
        }
        getattr(self._kernels, f"{self._op}_forward")(out=self._out, **self._inputs, **both)

    def backward(self):
        """Write `gradients`."""
        inputs = {name: value for name, value in self._inputs.items() if name != "bias"}
        function = getattr(self._kernels, f"{self._op}_backward")
        function(grad_out=self._grad_out, **inputs, **self._gradients, **self._both)


def as_stored(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return numbers as the kernels take them."""
    return bfloat16_bits(array) if dtype == "bfloat16" else array.astype(dtype)


def as_double(array: np.ndarray) -> np.ndarray:
    """Return what the kernels gave as numbers."""
    return (from_bfloat16_bits(array) if array.dtype == np.uint16 else array).astype(np.float64)


def _error(got: np.ndarray, right: np.ndarray) -> float:
    """Return |got - right| / |right|; a NaN is an infinite error."""
    error = float(np.linalg.norm(got - right) / max(float(np.linalg.norm(right)), 1e-300))
    return error if error == error else float("inf")

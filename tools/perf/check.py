"""Checks what is about to be timed: the very tensors, against fp64, before the clock starts."""

from __future__ import annotations

import numpy as np

from tools.perf.cases import FORWARD_BACKWARD, Case, CrossEntropyCase, Tensors
from tools.perf.provider import Arrays
from tools.perf.providers import Paddle

# Allowed ||got - expected|| / ||expected||. A library may round after every product, so fp32 gets
# twenty times what this package promises of itself; half types get two roundings.
TOLERANCE = {"float32": 4e-5, "float64": 1e-10, "float16": 2e-3, "bfloat16": 1.6e-2}


class WrongNumbers(Exception):
    """A provider's results are not those of the reference."""


def reference(case: Case, tensors: Tensors, direction: str, threads: int) -> Arrays | None:
    """Return the results in fp64, or None at sizes that nothing but this package computes.

    For deform_conv2d they are those of Paddle's own operator, for the cross entropy the formula's.
    """
    if isinstance(case, CrossEntropyCase):
        return _cross_entropy(tensors, direction)
    if not Paddle.supports(case, direction, "float64"):
        return None
    paddle = Paddle(case, tensors, "float64", threads)
    return paddle.arrays(paddle.run(direction))


def check(name: str, got: Arrays, expected: Arrays, dtype: str) -> None:
    """Raise WrongNumbers unless every expected result is there and near the reference."""
    for result, wanted in expected.items():
        value = got.get(result)
        if value is None:
            raise WrongNumbers(f"{name}: {result}: missing")
        if value.shape != wanted.shape:
            raise WrongNumbers(f"{name}: {result}: shape {value.shape}, expected {wanted.shape}")
        error = distance(value, wanted)
        # written so that NaN fails
        if not error <= TOLERANCE[dtype]:
            raise WrongNumbers(
                f"{name}: {result}: differs from the reference by {error:.1e} in norm, "
                f"allowed {TOLERANCE[dtype]:.1e}"
            )


def distance(got: np.ndarray, expected: np.ndarray) -> float:
    """Return ||got - expected|| / ||expected||, or the plain norm where nothing is expected."""
    size = float(np.linalg.norm(expected))
    return float(np.linalg.norm(got - expected)) / (size or 1.0)


def _cross_entropy(tensors: Tensors, direction: str) -> Arrays:
    """Return max(x, 0) - x * y + log1p(exp(-|x|)) and its gradient in x, sigmoid(x) - y."""
    x, label = tensors["x"].astype(np.float64), tensors["label"]
    results = {"out": np.maximum(x, 0) - x * label + np.log1p(np.exp(-np.abs(x)))}
    if direction == FORWARD_BACKWARD:
        results["x"] = tensors["grad_out"] * (1 / (1 + np.exp(-x)) - label)
    return results

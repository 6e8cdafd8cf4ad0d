"""What a provider is: one library that can compute a case."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Dict

import numpy as np

from tools.perf.cases import FORWARD, Case, Tensors

# The output and, after a backward, gradients under their inputs' names; in the library's own form.
Results = Dict[str, Any]
# The same in fp32 or fp64.
Arrays = Dict[str, np.ndarray]


class Provider(ABC):
    """One library; an instance holds the tensors of one case, converted before any timing."""

    name: ClassVar[str]
    # Whether it computes the case; a yardstick computes something else and is not checked.
    computes: ClassVar[bool] = True
    # Whether the gradient of a sample that lies exactly on row or column -1 is Paddle's.
    paddle_boundary: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def available(cls) -> bool:
        """Return whether the library can be used on this machine."""

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """Return the library's name and version."""

    @classmethod
    @abstractmethod
    def supports(cls, case: Case, direction: str, dtype: str) -> bool:
        """Return whether the library has the operator in this direction, type and size."""

    @abstractmethod
    def __init__(self, case: Case, tensors: Tensors, dtype: str, threads: int):
        """Load a case, and make the library use that many threads."""

    @abstractmethod
    def forward(self) -> Results:
        """Compute the output, as in inference."""

    @abstractmethod
    def forward_backward(self) -> Results:
        """Compute the output and the gradients of all inputs but labels."""

    def run(self, direction: str) -> Results:
        """Compute one direction."""
        return self.forward() if direction == FORWARD else self.forward_backward()

    def to_numpy(self, value: Any) -> np.ndarray:
        """Return one of the results in fp32 or fp64."""
        return np.asarray(value)

    def arrays(self, results: Results) -> Arrays:
        """Return all results as NumPy arrays."""
        return {name: self.to_numpy(value) for name, value in results.items()}

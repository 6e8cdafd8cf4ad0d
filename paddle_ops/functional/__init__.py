"""The operators as functions."""

from .binary_cross_entropy_with_logits import binary_cross_entropy_with_logits
from .sigmoid_cross_entropy_with_logits import sigmoid_cross_entropy_with_logits

__all__ = ["binary_cross_entropy_with_logits", "sigmoid_cross_entropy_with_logits"]

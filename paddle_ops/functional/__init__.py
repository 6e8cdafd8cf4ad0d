"""The operators as functions."""

from .binary_cross_entropy_with_logits import binary_cross_entropy_with_logits
from .deform_conv2d import deform_conv2d
from .sigmoid_cross_entropy_with_logits import sigmoid_cross_entropy_with_logits

__all__ = [
    "binary_cross_entropy_with_logits",
    "deform_conv2d",
    "sigmoid_cross_entropy_with_logits",
]

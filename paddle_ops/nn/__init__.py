"""The operators as layers."""

from .bce_with_logits_loss import BCEWithLogitsLoss
from .deform_conv2d import DeformConv2D

__all__ = ["BCEWithLogitsLoss", "DeformConv2D"]

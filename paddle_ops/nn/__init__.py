"""The operators as layers."""

from .bce_with_logits_loss import BCEWithLogitsLoss

__all__ = ["BCEWithLogitsLoss"]

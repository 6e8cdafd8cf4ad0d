"""The operators as layers."""

from .bce_with_logits_loss import BCEWithLogitsLoss
from .deform_conv2d import DeformConv2D
from .deform_conv2d_pack import DeformConv2DPack, ModulatedDeformConv2DPack

__all__ = ["BCEWithLogitsLoss", "DeformConv2D", "DeformConv2DPack", "ModulatedDeformConv2DPack"]

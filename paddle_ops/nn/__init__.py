"""The operators as layers."""

from .deform_conv2d import DeformConv2D

__all__ = ["DeformConv2D"]

"""The operators as functions."""

from .deform_conv2d import deform_conv2d

__all__ = ["deform_conv2d"]

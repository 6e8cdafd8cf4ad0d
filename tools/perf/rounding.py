"""Element types between libraries: every array here is fp32 and holds values of some type."""

from __future__ import annotations

import numpy as np


def bfloat16_bits(array: np.ndarray) -> np.ndarray:
    """Return fp32 numbers rounded to bfloat16 (to nearest, ties to even), as uint16."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16_bits(bits: np.ndarray) -> np.ndarray:
    """Return bfloat16 numbers, given as uint16, in fp32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return the nearest values of a type that is no wider than fp32; others stay as they are."""
    if dtype == "float16":
        return array.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        return from_bfloat16_bits(bfloat16_bits(array))
    return array

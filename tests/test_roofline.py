"""The table of docs/gpu.md."""

from pathlib import Path

import numpy as np
import pytest

from tools.perf import cases, roofline


def test_the_document_has_the_table():
    text = (Path(__file__).resolve().parents[1] / "docs" / "gpu.md").read_text()
    assert roofline.table() in text


@pytest.mark.parametrize(
    "direction, columns, image", [("forward", 2, 2), ("forward+backward", 7, 9)]
)
def test_bytes(direction, columns, image):
    case = cases.DeformConvCase("T", "test", (2, 4, 5, 6), 6, stride=2)
    once = case.bytes(direction, "float32")
    matrix = np.zeros((2, 4 * 9, 3, 3), np.float32)
    assert roofline.column_bytes(case, direction) == once + columns * matrix.nbytes
    assert roofline.fused_bytes(case, direction) == once + image * np.zeros(case.x, "f").nbytes

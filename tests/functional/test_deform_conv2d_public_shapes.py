"""The configurations of other projects' tests, with data of ours, against the reference.

Their own data is random (and mostly samples outside the image), so only their shapes are kept.
"""

import numpy as np
import pytest
from deform_cases import Case, judge


def _square(x, kernel, stride, padding, dilation, **more):
    ph, pw = padding if isinstance(padding, tuple) else (padding, padding)
    pads = (ph, ph, pw, pw)
    return Case(x, kernel, (stride, stride), pads, (dilation, dilation), **more)


CONFIGURATIONS = {
    # Paddle, test_deformable_conv_op.py
    "v2": _square((2, 8, 4, 4), (4, 3, 3), 1, 1, 1, bias=False),
    "v2_stride": _square((2, 3, 5, 5), (6, 3, 3), 2, 3, 1, bias=False),
    "v2_dilation": _square((4, 3, 4, 4), (6, 3, 3), 1, 2, 2, bias=False),
    "v2_3x3": _square((2, 3, 5, 5), (6, 3, 3), 1, 1, 1, bias=False),
    "v2_group": _square((2, 8, 4, 4), (4, 3, 3), 1, 1, 1, groups=2, bias=False),
    "v2_double": _square((2, 6, 4, 4), (4, 3, 3), 1, 1, 1, bias=False),
    # Paddle, test_deformable_conv_v1_op.py
    "v1": _square((2, 4, 4, 4), (4, 3, 3), 1, 1, 1, mask=False, bias=False),
    "v1_stride": _square((2, 3, 5, 5), (6, 3, 3), 2, 3, 1, mask=False, bias=False),
    "v1_dilation": _square((5, 3, 4, 4), (6, 3, 3), 1, 2, 2, mask=False, bias=False),
    "v1_1x1": _square((2, 3, 5, 5), (40, 1, 1), 1, 0, 1, mask=False, bias=False),
    "v1_group": _square((2, 8, 4, 4), (4, 3, 3), 1, 1, 1, groups=2, mask=False, bias=False),
    # torchvision and tvdcn
    "vision": Case(
        (33, 6, 5, 4), (2, 3, 2), (2, 1), (1, 1, 0, 0), (2, 1), groups=2, deformable_groups=3
    ),
    "tvdcn": Case((2, 4, 5, 6), (2, 2, 3), (1, 2), (0, 0, 1, 1), (1, 2), deformable_groups=2),
    # PaddleAPITest
    "api_1x1": _square((4, 2, 5, 5), (5, 3, 3), 1, 0, 1, bias=False),
    "api_dilation_3": _square((4, 3, 5, 5), (5, 3, 3), 1, 1, 3),
    "api_stride_2": _square((4, 3, 5, 5), (5, 3, 3), 2, 1, 1),
    "api_padding_pair": _square((4, 3, 5, 5), (5, 3, 3), 1, (1, 2), 1),
    "api_padding_2": _square((4, 3, 5, 5), (5, 3, 3), 1, 2, 1),
    "api_depthwise": _square((4, 5, 5, 5), (5, 3, 3), 1, 1, 1, groups=5),
    "api_deformable_5": _square((4, 5, 5, 5), (5, 3, 3), 1, 1, 1, deformable_groups=5),
}


@pytest.mark.parametrize("with_mask", [True, False])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configuration(name, with_mask):
    case = CONFIGURATIONS[name]
    data = case.arrays(np.float32)
    if not with_mask:
        data["mask"] = None
    judge(data, case.attrs())


@pytest.mark.parametrize("name", ["v2", "vision", "api_deformable_5"])
def test_offsets_far_outside(name):
    """Ten times a number in [0, 1), as Paddle's test has it: most samples miss the image."""
    case = CONFIGURATIONS[name]
    data = case.arrays(np.float64)
    data["offset"] = 10 * np.random.uniform(0.01, 0.99, data["offset"].shape)
    judge(data, case.attrs())

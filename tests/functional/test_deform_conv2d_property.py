"""Random configurations against the reference; the same ones in every run."""

import numpy as np
import pytest
from deform_cases import Case, judge

hypothesis = pytest.importorskip("hypothesis", reason="random configurations need hypothesis")
st = hypothesis.strategies


@st.composite
def cases(draw):
    """A small valid configuration, anything else about it random."""
    small = st.integers(1, 3)
    groups, deformable = draw(small), draw(small)
    channels = np.lcm(groups, deformable) * draw(st.integers(1, 2))
    kh, kw, sh, sw, dh, dw = (draw(small) for _ in range(6))
    padding = [draw(st.integers(0, 3)) for _ in range(4)]
    # the smallest image that leaves one output, and up to three more pixels
    h = max(1, dh * (kh - 1) + 1 - padding[0] - padding[1]) + draw(st.integers(0, 3))
    w = max(1, dw * (kw - 1) + 1 - padding[2] - padding[3]) + draw(st.integers(0, 3))
    return Case(
        (draw(small), int(channels), h, w),
        (groups * draw(small), kh, kw),
        (sh, sw),
        tuple(padding),
        (dh, dw),
        groups,
        deformable,
        draw(st.booleans()),
        draw(st.booleans()),
    )


@hypothesis.settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(
    case=cases(),
    dtype=st.sampled_from([np.float64, np.float32]),
    rule=st.sampled_from(["paddle", "torchvision"]),
    whole=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_random_configuration(case, dtype, rule, whole, seed):
    data = case.arrays(dtype, seed=seed)
    if whole:  # integer coordinates: the kinks, the border, and exactly -1
        data["offset"] = np.floor(data["offset"])
    judge(data, {**case.attrs(), "boundary_grad": rule})

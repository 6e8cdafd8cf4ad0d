"""sigmoid_cross_entropy_with_logits beyond 2^31 elements, against parts computed alone.

Zeros that were never written cost no memory, so only the results take any: 4.3 GiB at a time.
"""

import numpy as np
import pytest
from cross_entropy_cases import attrs_of

from paddle_ops import _lib

pytestmark = pytest.mark.large

COUNT = 2**31 + 3
# Where inputs differ from zero: both ends, and around each power of two that a count could break.
PARTS = [
    (0, 5000),
    (2**30 - 2500, 2**30 + 2500),
    (2**31 - 7000, 2**31 - 1),
    (2**31 - 1, 2**31 + 1),
    (2**31 + 1, COUNT),
]
IGNORED = 5


def filled(seed, low, high):
    """COUNT zeros, random numbers in PARTS."""
    random = np.random.RandomState(seed)
    array = np.zeros(COUNT, np.float16)
    for start, stop in PARTS:
        array[start:stop] = random.uniform(low, high, stop - start)
    return array


def options_of(form):
    return attrs_of(form, ignore_index=IGNORED)


def inputs(form):
    data = {"x": filled(0, -9, 9), "label": filled(1, 0, 1), "pos_weight": None}
    data["label"][PARTS[0][0] + 3 : PARTS[0][0] + 9] = IGNORED
    data["label"][-2] = IGNORED
    if form != "none":
        data["pos_weight"] = filled(2, 0.5, 2)
    return data


def part_of(data, start, stop):
    return {n: None if a is None else a[start:stop].copy() for n, a in data.items()}


def assert_constant_elsewhere(array, value):
    """Between the parts all inputs are zero, so the result is one number."""
    edges = [0, *[e for part in PARTS for e in part], COUNT]
    for start, stop in zip(edges[0::2], edges[1::2]):
        for block in range(start, stop, 2**26):
            assert (array[block : min(block + 2**26, stop)] == value).all(), block


@pytest.mark.parametrize("form", ["none", "log1p"])
def test_forward(form):
    kernel = _lib.kernels().sigmoid_cross_entropy_with_logits_forward
    data, options = inputs(form), options_of(form)
    out = np.empty(COUNT, np.float16)
    kernel(out=out, **data, **options)
    for start, stop in PARTS:
        alone = np.empty(stop - start, np.float16)
        kernel(out=alone, **part_of(data, start, stop), **options)
        np.testing.assert_array_equal(out[start:stop], alone)
    assert out[-2] == 0
    assert_constant_elsewhere(out, np.float16(np.log(2)) if form == "none" else 0)


@pytest.mark.parametrize("wanted", ["x", "label", "pos_weight"])
def test_backward(wanted):
    kernel = _lib.kernels().sigmoid_cross_entropy_with_logits_backward
    data, options = inputs("softplus"), options_of("softplus")
    grad_out = filled(3, -1, 1)
    grad = np.empty(COUNT, np.float16)
    kernel(grad_out=grad_out, **data, **{f"grad_{wanted}": grad}, **options)
    for start, stop in PARTS:
        alone = np.empty(stop - start, np.float16)
        kernel(
            grad_out=grad_out[start:stop],
            **part_of(data, start, stop),
            **{f"grad_{wanted}": alone},
            **options,
        )
        np.testing.assert_array_equal(grad[start:stop], alone)
    assert_constant_elsewhere(grad, 0)


def test_normalize_counts_beyond_32_bits():
    """The number of kept elements does not fit 31 bits; a wrapped count would change the sign."""
    kernels = _lib.kernels()
    data = {"x": np.zeros(COUNT, np.float16), "label": np.zeros(COUNT, bool)}
    data["label"][[0, -1]] = True  # ignored
    grad_out = np.zeros(COUNT, np.float16)
    grad_out[[0, 1, 2**31, -2, -1]] = 60000
    grad = np.empty(COUNT, np.float16)
    kernels.sigmoid_cross_entropy_with_logits_backward(
        grad_out=grad_out, grad_x=grad, normalize=True, ignore_index=1, **data
    )
    expected = np.float16(0.5 * 60000 / (COUNT - 2))
    np.testing.assert_array_equal(
        grad[[0, 1, 2, 2**31, -2, -1]], [0, expected, 0, expected, expected, 0]
    )

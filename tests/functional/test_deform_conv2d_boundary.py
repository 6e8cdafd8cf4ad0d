"""Where a sample exists, what its slope is there, and that nothing else leaks in."""

import numpy as np
import pytest
from deform_cases import CASES, NAMES, Case, cotangent, expected, function_of, judge
from modes import evaluate
from numeric import assert_close

INF, NAN = np.inf, np.nan
RULES = ("paddle", "torchvision")

# One 3x3 image 1..9, 1x1 kernel, weight 1, mask 1, sampled at (y, x):
# out, (d out/dy, d out/dx), d out/d mask, sum of d out/d x. Published by two libraries.
INTERIOR = [
    ((0, 0), 1, (3, 1), 1, 1),
    ((1, 1), 5, (3, 1), 5, 1),
    ((2, 2), 9, (-9, -9), 9, 1),
    ((2, 1), 8, (-8, 1), 8, 1),
    ((1.5, 0.25), 5.75, (3, 1), 5.75, 1),
    ((2.5, 1.25), 4.125, (-8.25, 0.5), 4.125, 0.5),
    ((-0.5, 0.25), 0.625, (1.25, 0.5), 0.625, 0.5),
    ((-0.999, 1), 0.002, (2, 0.001), 0.002, 0.001),
    ((2.999, 1), 0.008, (-8, 0.001), 0.008, 0.001),
]

# Output, mask gradient and x gradient are 0; the two rules differ in the slope alone.
BORDER = [
    ((-1, 0), (1, 0)),
    ((-1, 0.5), (1.5, 0)),
    ((-1, 1), (2, 0)),
    ((-1, 2.5), (1.5, 0)),
    ((0, -1), (0, 1)),
    ((0.5, -1), (0, 2.5)),
    ((-1, -1), (0, 0)),
]

OUTSIDE = [
    (-1.0001, 1),
    (3, 1),
    (1, 3),
    (3, 3),
    (1e10, 1),
    (-1e10, 1),
    (1, 1e10),
    (1, -1e10),
    (3e38, -3e38),
    (INF, 1),
    (-INF, 1),
    (1, INF),
    (1, -INF),
    (INF, INF),
    (NAN, 1),
    (1, NAN),
    (NAN, NAN),
    (NAN, INF),
]


def _sample(position, rule, dtype=np.float64):
    """(out, d offset, d mask, d x) at one position of the 3x3 image."""
    arrays = [
        np.arange(1, 10, dtype=dtype).reshape(1, 1, 3, 3),
        np.array(position, dtype=dtype).reshape(1, 2, 1, 1),
        np.ones((1, 1, 1, 1), dtype),
        None,
        np.ones((1, 1, 1, 1), dtype),
    ]
    # A stride of 3 leaves one output; its base position is (0, 0).
    function = function_of({"stride": 3, "boundary_grad": rule})
    (out,), grads = evaluate("dygraph", function, arrays, [0, 1, 2, 4], [np.ones_like(arrays[2])])
    assert grads[2].item() == out.item()
    return out.item(), tuple(grads[1].ravel()), grads[4].item(), grads[0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("position, out, slope, mask, total", INTERIOR)
def test_inside(position, out, slope, mask, total, rule):
    got_out, got_slope, got_mask, got_x = _sample(position, rule)
    np.testing.assert_allclose(got_out, out, rtol=1e-12)
    np.testing.assert_allclose(got_slope, slope, rtol=1e-12)
    np.testing.assert_allclose(got_mask, mask, rtol=1e-12)
    np.testing.assert_allclose(got_x.sum(), total, rtol=1e-12)


def test_gradient_of_x_half_outside():
    *_, grad_x = _sample((2.5, 1.25), "paddle")
    assert np.array_equal(grad_x[0, 0], [[0, 0, 0], [0, 0, 0], [0, 0.375, 0.125]])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("position, torchvision_slope", BORDER)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exactly_on_the_lower_border(position, torchvision_slope, rule, dtype):
    out, slope, mask, grad_x = _sample(position, rule, dtype)
    assert (out, mask) == (0, 0) and not grad_x.any()
    assert slope == ((0, 0) if rule == "paddle" else torchvision_slope)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("position", OUTSIDE)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_outside_and_not_finite(position, rule, dtype):
    if dtype is np.float32 and abs(position[0]) == 1.0001:
        position = (np.float32(-1.0001), 1)
    out, slope, mask, grad_x = _sample(position, rule, dtype)
    assert (out, slope, mask) == (0, (0, 0), 0) and not grad_x.any()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("padding", [(1, 1, 1, 1), (1, 0, 0, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zero_offsets_with_padding(rule, padding, dtype):
    """A net's first step: every top and left border tap samples exactly -1."""
    case = Case((2, 5, 4, 6), (3, 3, 3), (1, 2), padding)
    data = case.arrays(dtype)
    data["offset"][:] = 0
    judge(data, {**case.attrs(), "boundary_grad": rule})


def test_zero_offsets_are_a_convolution():
    """With zero offsets and unit mask this is conv2d, in the output and three gradients."""
    import paddle
    from modes import tensor

    case = Case((2, 4, 7, 6), (6, 3, 2), (2, 1), (1, 1, 2, 2), (1, 2), groups=2)
    data, attrs = case.arrays(), case.attrs()
    data["offset"][:], data["mask"][:] = 0, 1
    results = []
    for convolution in (False, True):
        x, weight, bias = (tensor(data[n], stop_gradient=False) for n in ("x", "weight", "bias"))
        if convolution:
            out = paddle.nn.functional.conv2d(x, weight, bias, [2, 1], [1, 2], [1, 2], 2)
        else:
            out = function_of(attrs)(x, tensor(data["offset"]), weight, bias, tensor(data["mask"]))
        (out * out).sum().backward()
        results.append([out, x.grad, weight.grad, bias.grad])
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [NAN, INF, -INF, 1e10, -3e38])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["rectangular", "groups_2_deformable_3", "odd_channels"])
def test_bad_offsets_among_good_ones(name, rule, bad):
    """Only the samples with the bad coordinate vanish; every other number stays right."""
    case = CASES[name]
    data = case.arrays(np.float32)
    random = np.random.RandomState(5)
    data["offset"][random.uniform(size=data["offset"].shape) < 0.2] = bad
    got, out = judge(data, {**case.attrs(), "boundary_grad": rule})
    for values in (out, *got.values()):
        assert np.isfinite(values).all()


@pytest.mark.parametrize("bad", [NAN, INF])
def test_pixels_that_no_sample_reads_do_not_leak(bad):
    """A clamped index times a zero weight would turn Inf into NaN: outside is not read at all."""
    x = np.arange(1.0, 13.0).reshape(1, 1, 3, 4)
    x[0, 0, 0, :] = bad  # the first row
    x[0, 0, :, 3] = bad  # the last column
    offset = np.zeros((1, 2, 3, 4))
    offset[0, 0] = np.array([-5.0, 0.5, 0.5])[:, None]  # rows -5, 1.5, 2.5
    offset[0, 1] = np.array([0.5, 0.5, 4.0, 7.0])  # columns .5, 1.5, 6, 10
    data = dict(x=x, offset=offset, weight=np.ones((1, 1, 1, 1)), bias=None, mask=None)
    grad_out = np.ones((1, 1, 3, 4))
    got, out = judge(data, {}, ("x", "offset", "weight"), grad_out)
    for values in (out, *got.values()):
        assert np.isfinite(values).all()
    assert out[0, 0, 0].tolist() == [0, 0, 0, 0]
    assert out[0, 0, 1].tolist() == [(5 + 6 + 9 + 10) / 4, (6 + 7 + 10 + 11) / 4, 0, 0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_neighbour_outside_counts_zero_beside_infinity(dtype):
    """Half outside, the inside neighbour infinite: the answer is infinite, not 0 * Inf = NaN."""
    for row, column in ((-0.5, 1.0), (2.5, 1.0), (1.0, -0.5), (1.0, 2.5)):
        x = np.full((1, 1, 3, 3), INF, dtype)
        x[0, 0, 1, 1] = 1
        offset = np.array([row, column], dtype).reshape(1, 2, 1, 1)
        weight = np.ones((1, 1, 1, 1), dtype)
        arrays = [x, offset + np.array([[[[0.25]], [[0.25]]]], dtype), weight, None, None]
        (out,), _ = evaluate("dygraph", function_of({"stride": 3}), arrays)
        assert np.isposinf(out).all(), (row, column, out)


@pytest.mark.parametrize("channels", [1, 8, 17])
def test_infinite_pixels_outside_the_reach_of_a_position(channels):
    """One image of the batch infinite, the other finite: they do not meet."""
    case = Case((2, channels, 5, 4), (3, 3, 2), (1, 1), (1, 1, 0, 1))
    data, attrs = case.arrays(np.float32), case.attrs()
    clean = {n: a.copy() for n, a in data.items()}
    data["x"][1] = INF
    arrays = [data[n] for n in NAMES]
    (out,), grads = evaluate(
        "dygraph", function_of(attrs), arrays, [0, 1, 4], [cotangent(clean, attrs)]
    )
    right, out_right = expected(clean, attrs, cotangent(clean, attrs))
    assert_close(out[:1], out_right[:1], "out")
    for name in ("x", "offset", "mask"):
        assert_close(grads[NAMES.index(name)][:1], right[name][:1], name)

"""The CUDA kernels of deform_conv2d where a tensor has more than 2^31 elements.

Arrays are zeros that take no memory, but for their ends; only the last blocks of each launch run.
The right answer is that of a small case made of the ends alone.
"""

import numpy as np
import pytest
from deform_cases import Case

from kernels.cuda import emulator
from kernels.cuda.deform_calls import (
    OP,
    assert_same_bits,
    backward,
    forward,
    grad_out_of,
    judge,
)

pytestmark = [emulator.needs_nvcc, pytest.mark.jit]

LIMIT = 2**31


@pytest.fixture(scope="module")
def kernels():
    return emulator.operator(OP, arch="sm_90")


def with_end(shape, end):
    """Zeros of that shape, `end` at the end of those axes that are longer than its own."""
    whole = emulator.sparse(shape, end.dtype)
    whole[tuple(slice(-length, None) for length in end.shape)] = end
    return whole


def end_of(whole, shape):
    return whole[tuple(slice(-length, None) for length in shape)]


def run_ends(kernels, blocks, case, data, grad_out, wanted, **options):
    """out and gradients, of which only the last blocks of each launch have been computed."""
    new = {"new": emulator.sparse}
    shared = {n: value for n, value in options.items() if n == "scratch_bytes"}
    with kernels.program.configured(blocks=(-blocks, -1)):
        out = forward(kernels, case, data, **new, **shared)
        return out, backward(kernels, case, data, grad_out, wanted, **new, **options)


def assert_same_ends(large, small, names, count=None):
    """The last `count` numbers of the last axis, or all that the small ones have."""
    for name in names:
        got = end_of(large[name], small[name].shape)
        last = slice(-count if count else None, None)
        assert np.any(small[name][..., last]), name
        np.testing.assert_array_equal(got[..., last], small[name][..., last], name)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_x(kernels, dtype, deterministic):
    """x and grad_x have 2^31 + 144 elements, in one image that 9 pixels far apart sample."""
    width, step = 2**29 + 36, 2**26 + 4
    large = Case((1, 4, 1, width), (3, 1, 2), (1, step), (0, 0, 0, 1))
    small = Case((1, 4, 1, 36), (3, 1, 2), (1, 4), (0, 0, 0, 1))
    assert np.prod(large.x) > LIMIT and large.output_size() == small.output_size() == (1, 9)
    data = small.arrays(dtype)
    data["offset"][..., :-1] = np.nan  # the last pixel alone samples where x is not 0
    data["offset"][..., -1] = np.array([-0.25, -3.5, 0.5, -0.75]).reshape(1, 4, 1)
    grad_out = grad_out_of(small, dtype)
    options = {"deterministic": deterministic}
    judge(kernels, small, data, **options)
    right = backward(kernels, small, data, grad_out, **options)

    whole = {**data, "x": with_end(large.x, data["x"])}
    out, got = run_ends(kernels, 4, large, whole, grad_out, right, **options)
    np.testing.assert_array_equal(out, forward(kernels, small, data))
    assert_same_ends(got, right, ["x"])
    assert_same_bits(right, got, ["offset", "weight", "bias", "mask"])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_offset_and_out(kernels, dtype):
    """One row of 2^30 + 64 pixels: 2^31 + 128 offsets, 3 x 2^30 outputs."""
    width, seen = 2**30 + 64, 60
    large, small = (Case((1, 1, 1, w), (3, 1, 1), bias=False) for w in (width, 128))
    data = small.arrays(dtype)
    data["offset"][:, 0] = -0.25
    data["offset"][:, 1] = np.resize([-1.5, 0.75, -0.25, 3.5, -2.75], 128)
    grad_out = grad_out_of(small, dtype)
    grad_out[..., :-seen] = 0
    names = ("x", "offset", "mask")
    judge(kernels, small, data)
    right = backward(kernels, small, data, grad_out, names)

    shapes = large.shapes()
    whole = {name: data[name] for name in data}
    whole.update({name: with_end(shapes[name], data[name]) for name in names})
    out_shape = (1, 3, 1, width)
    assert np.prod(shapes["offset"]) > LIMIT and np.prod(out_shape) > LIMIT
    out, got = run_ends(kernels, 4, large, whole, with_end(out_shape, grad_out), names)
    assert_same_ends({"out": out}, {"out": forward(kernels, small, data)}, ["out"], seen)
    assert_same_ends(got, right, names, seen)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("scratch_bytes", [0, LIMIT - 1])
def test_many_images(kernels, scratch_bytes, deterministic):
    """2^27 + 3 images of one pixel, in several chunks and in one: 18 x 2^27 offsets."""
    many = 2**27 + 3
    large, small = (Case((n, 1, 1, 1), (2, 3, 3), padding=(1, 1, 1, 1)) for n in (many, 3))
    data = small.arrays(np.float16)
    grad_out = grad_out_of(small, np.float16)
    names = ("x", "offset", "mask")
    judge(kernels, small, data)
    options = {"deterministic": deterministic}
    right = backward(kernels, small, data, grad_out, names, **options)

    shapes = large.shapes()
    assert np.prod(shapes["offset"]) > LIMIT
    whole = {**data, **{name: with_end(shapes[name], data[name]) for name in names}}
    whole_grad = with_end((many, *grad_out.shape[1:]), grad_out)
    options["scratch_bytes"] = scratch_bytes
    out, got = run_ends(kernels, 18, large, whole, whole_grad, names, **options)
    assert_same_ends({"out": out}, {"out": forward(kernels, small, data)}, ["out"])
    assert_same_ends(got, right, names)


@pytest.mark.parametrize(
    "case",
    [Case((1, 2**30 + 1, 1, 1), (1, 1, 1)), Case((1, 1, 1, 1), (2**32, 1, 1), mask=False)],
    ids=["channels", "outputs"],
)
def test_more_than_can_be_counted(kernels, case):
    """An error, as counters of 32 bits would start anew."""
    whole = {name: emulator.sparse(shape, np.float16) for name, shape in case.shapes().items()}
    grad_out = emulator.sparse((1, case.kernel[0], 1, 1), np.float16)
    with pytest.raises(RuntimeError, match="invalid"):
        forward(kernels, case, whole, new=emulator.sparse)
    with pytest.raises(RuntimeError, match="invalid"):
        backward(kernels, case, whole, grad_out, ["weight"], new=emulator.sparse)


def test_weight(kernels):
    """2.6e9 weights, and the matrix of the last tap begins beyond 2^31 of them. Of the channels,
    outputs and taps the last ones count.
    """
    seen = 64
    large = Case((1, 8744, 1, 9), (2**15 + 8, 1, 9), mask=False, bias=False)
    small = Case((1, seen, 1, 9), (seen, 1, 9), mask=False, bias=False)
    shapes = large.shapes()
    assert np.prod(shapes["weight"]) * 8 / 9 > LIMIT
    data = small.arrays(np.float32)
    data["x"][:, :-1] = 0
    data["offset"][:, :16] = np.nan
    data["offset"][:, 16:] = -0.25
    grad_out = grad_out_of(small, np.float32)
    right = backward(kernels, small, data, grad_out, ["weight"])

    whole = {**data, **{name: with_end(shapes[name], data[name]) for name in ("x", "weight")}}
    whole_grad = with_end((1, large.kernel[0], 1, 1), grad_out)
    out, got = run_ends(kernels, 4, large, whole, whole_grad, ["weight"])
    np.testing.assert_array_equal(out[:, -seen:], forward(kernels, small, data))
    # of the last step, which adds up and stores, only the last output's blocks have run
    last = right["weight"][-1, -16:]
    assert np.any(last)
    np.testing.assert_array_equal(got["weight"][-1, -16:], last)

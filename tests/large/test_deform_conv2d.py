"""Sizes beyond 2^31, really run, on the kernels without Paddle.

Inputs are a small block of random data, repeated: the outputs of a large call must repeat too, and
equal those of the block alone, at both ends, around the boundary and everywhere else. Blocks have
odd sizes, so that an index which wraps at 2^32 lands on other data.
"""

import numpy as np
import psutil
import pytest
from numeric import assert_norm
from reference import deform_conv2d as reference

from paddle_ops import _lib

pytestmark = pytest.mark.large
GIB = 2**30
BLOCK = 1009  # images, or channels


@pytest.fixture(autouse=True)
def memory(request):
    """Skips a test that this machine cannot hold."""
    needed = request.node.get_closest_marker("gib").args[0]
    available = psutil.virtual_memory().available / GIB
    if available < needed:
        pytest.skip(f"needs {needed} GiB of memory, {available:.1f} are available")


def repeated(block, count, axis=0):
    """`count` entries along an axis, the block's over and over; filled in place, no second copy."""
    shape = list(block.shape)
    shape[axis] = count
    big = np.empty(shape, block.dtype)
    lead = (slice(None),) * axis
    for start in range(0, count, block.shape[axis]):
        stop = min(count, start + block.shape[axis])
        big[(*lead, slice(start, stop))] = block[(*lead, slice(0, stop - start))]
    return big


def assert_repeats(big, block, what):
    """Every entry along the first axis equals the block's, bitwise."""
    for start in range(0, len(big), len(block)):
        part = big[start : start + len(block)]
        if not np.array_equal(part, block[: len(part)]):
            wrong = np.flatnonzero((part != block[: len(part)]).reshape(len(part), -1).any(axis=1))
            raise AssertionError(f"{what}: image {start + wrong[0]} differs")


def small_images(dtype, seed=0):
    """A block of images of the public report's shape: x, offset, mask, weight."""
    random = np.random.RandomState(seed)
    return {
        "x": random.uniform(-1, 1, (BLOCK, 3, 5, 5)).astype(dtype),
        "offset": random.uniform(-2, 2, (BLOCK, 18, 5, 5)).astype(dtype),
        "mask": random.uniform(0, 1, (BLOCK, 9, 5, 5)).astype(dtype),
        "weight": random.uniform(-1, 1, (6, 3, 3, 3)).astype(dtype),
    }


IMAGES = 5_070_448  # offset has 2,281,701,600 elements
PAD1 = {"paddings": [1, 1, 1, 1]}


@pytest.mark.gib(20)
def test_b2_forward_in_float32():
    block = small_images(np.float32)
    out = np.empty((BLOCK, 6, 5, 5), np.float32)
    _lib.kernels().deform_conv2d_forward(out=out, **block, **PAD1)
    expected = reference.forward(**block, padding=1)
    assert_norm(out, expected, "the block alone")

    big = {name: repeated(block[name], IMAGES) for name in ("x", "offset", "mask")}
    assert big["offset"].size > 2**31
    big_out = np.empty((IMAGES, 6, 5, 5), np.float32)
    _lib.kernels().deform_conv2d_forward(out=big_out, weight=block["weight"], **big, **PAD1)
    assert_repeats(big_out, out, "out")


@pytest.mark.gib(19)
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_b2_backward_in_half_types(kind):
    block = small_images(np.float16)
    if kind == "bfloat16":  # as its bits: the upper half of float32
        block = {
            n: (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            for n, a in block.items()
        }
    grad_out = repeated(block["mask"][:, :6], BLOCK)
    names = ("x", "offset", "mask")
    alone = {f"grad_{name}": np.empty_like(block[name]) for name in names}
    _lib.kernels().deform_conv2d_backward(grad_out=grad_out, **block, **alone, **PAD1)

    big = {name: repeated(block[name], IMAGES) for name in names}
    big_grad = {f"grad_{name}": np.empty_like(big[name]) for name in names}
    assert big_grad["grad_offset"].size > 2**31
    _lib.kernels().deform_conv2d_backward(
        grad_out=repeated(grad_out, IMAGES), weight=block["weight"], **big, **big_grad, **PAD1
    )
    for name, value in alone.items():
        assert_repeats(big_grad[name], value, name)


@pytest.mark.gib(18)
def test_b2_weight_gradient_sums_over_all_images():
    """1.27e8 terms an element, of one sign: a sum in float32 alone would be far off."""
    block = {name: np.abs(value) for name, value in small_images(np.float16).items()}
    grad_out = repeated(block["mask"][:, :6], BLOCK)
    whole, rest = divmod(IMAGES, BLOCK)

    def weight_gradient(images):
        inputs = {n: block[n][:images] for n in ("x", "offset", "mask")}
        grad = reference.backward(grad_out[:images], weight=block["weight"], **inputs, padding=1)
        return grad["weight"]

    expected = whole * weight_gradient(BLOCK) + weight_gradient(rest)
    big = {name: repeated(block[name], IMAGES) for name in ("x", "offset", "mask")}
    grad_weight = np.empty((6, 3, 3, 3), np.float32)
    _lib.kernels().deform_conv2d_backward(
        grad_out=repeated(grad_out, IMAGES),
        weight=block["weight"],
        grad_weight=grad_weight,
        **big,
        **PAD1,
    )
    assert_norm(grad_weight, expected, "grad_weight")


@pytest.fixture(scope="module")
def wide_image():
    """B1: x [1, 240, 1024, 1024], 3x3, pad 1: the columns of one image exceed 2^31 elements."""
    random = np.random.RandomState(0)
    x = repeated(random.uniform(-1, 1, (1, 240, 61, 1024)).astype(np.float32), 1024, axis=2)
    offset = repeated(random.uniform(-2, 2, (1, 18, 67, 1024)).astype(np.float32), 1024, axis=2)
    weight = random.uniform(-1, 1, (1, 240, 3, 3)).astype(np.float32)
    grad_out = random.uniform(-1, 1, (1, 1, 1024, 1024)).astype(np.float32)
    return {"x": x, "offset": offset, "weight": weight}, grad_out


@pytest.mark.gib(8)
def test_b1_forward(wide_image):
    inputs, _ = wide_image
    out = np.empty((1, 1, 1024, 1024), np.float32)
    _lib.kernels().deform_conv2d_forward(out=out, **inputs, **PAD1)
    for rows in ((0, 8), (508, 520), (1016, 1024)):
        got, expected = rows_of_out(inputs, out, *rows)
        assert_norm(got, expected, f"rows {rows}")


def rows_of_out(inputs, out, first, last):
    """(out[first:last], the same rows in float64 from nothing but the rows of x they can reach)."""
    low, high = max(0, first - 4), min(1024, last + 4)
    x, offset = inputs["x"][:, :, low:high], inputs["offset"][:, :, low:high]
    cut = {"x": x, "offset": offset, "weight": inputs["weight"]}
    expected = reference.forward(**cut, padding=1)
    return out[:, :, first:last], expected[:, :, first - low : last - low]


@pytest.mark.gib(10)
def test_b1_backward(wide_image):
    inputs, grad_out = wide_image
    grads = {f"grad_{name}": np.empty_like(value) for name, value in inputs.items()}
    _lib.kernels().deform_conv2d_backward(grad_out=grad_out, **inputs, **grads, **PAD1)
    # The gradients of x and weight of some channels need no other channels. Column 2^31 belongs to
    # channel 227.
    for channels in (slice(0, 3), slice(226, 229), slice(238, 240)):
        cut = {n: np.ascontiguousarray(inputs[n][:, channels]) for n in ("x", "weight")}
        alone = {f"grad_{name}": np.empty_like(value) for name, value in cut.items()}
        _lib.kernels().deform_conv2d_backward(
            grad_out=grad_out, offset=inputs["offset"], **cut, **alone, **PAD1
        )
        for name, value in alone.items():
            assert_norm(grads[name][:, channels], value.astype(np.float64), name)
    for first, last in ((0, 8), (508, 520), (1016, 1024)):
        low, high = max(0, first - 4), min(1024, last + 4)
        expected = reference.backward(
            grad_out[:, :, low:high],
            inputs["x"][:, :, low:high],
            inputs["offset"][:, :, low:high],
            inputs["weight"],
            padding=1,
        )["offset"]
        got = grads["grad_offset"][:, :, first:last]
        assert_norm(got, expected[:, :, first - low : last - low], f"grad_offset rows {first}")


@pytest.mark.gib(17)
def test_a_sum_over_two_hundred_million_columns():
    """x [4, 22817014, 5, 5] and a weight of 1.03e9 elements: both index widths' limits at once."""
    channels = 22_817_014
    random = np.random.RandomState(0)
    x = random.uniform(0, 1, (4, BLOCK, 5, 5)).astype(np.float32)
    weight = random.uniform(0, 1, (5, BLOCK, 3, 3)).astype(np.float32)
    offset = random.uniform(-1, 1, (4, 18, 3, 3)).astype(np.float32)
    whole, rest = divmod(channels, BLOCK)
    expected = whole * reference.forward(x, offset, weight)
    expected += reference.forward(x[:, :rest], offset, weight[:, :rest])
    big_x, big_weight = (repeated(value, channels, axis=1) for value in (x, weight))
    assert big_x.size > 2**31
    out = np.empty((4, 5, 3, 3), np.float32)
    _lib.kernels().deform_conv2d_forward(out=out, x=big_x, offset=offset, weight=big_weight)
    assert_norm(out, expected, "out")

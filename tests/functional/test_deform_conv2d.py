"""deform_conv2d on the CPU against the float64 reference: sizes, types, gradients, layouts."""

import itertools

import numpy as np
import paddle
import pytest
from deform_cases import CASES, NAMES, Case, cotangent, expected, function_of, judge
from modes import evaluate, tensor
from numeric import assert_close, rounded_to

SMALL = CASES["groups_2_deformable_3"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_every_configuration(name, dtype):
    case = CASES[name]
    judge(case.arrays(dtype), case.attrs())


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rule", ["paddle", "torchvision"])
def test_mask_and_bias_present_or_absent(mask, bias, rule):
    case = Case((2, 4, 5, 6), (3, 3, 2), (2, 1), (1, 0, 2, 1), groups=1, mask=mask, bias=bias)
    for dtype in (np.float64, np.float32):
        judge(case.arrays(dtype), {**case.attrs(), "boundary_grad": rule})


@pytest.mark.parametrize("padding", [0, 2, [1, 2], (2, 0), [1, 0, 2, 1], (0, 3, 1, 0)])
@pytest.mark.parametrize("stride", [1, 2, [2, 1], (1, 3)])
def test_ways_to_write_sizes(padding, stride):
    """An int, a pair (h, w), and four paddings (top, bottom, left, right); lists and tuples."""
    top, bottom, left, right = _four(padding)
    pair = (stride, stride) if isinstance(stride, int) else tuple(stride)
    case = Case((1, 2, 5, 7), (2, 2, 3), pair, (top, bottom, left, right), (2, 1))
    attrs = {**case.attrs(), "padding": padding, "stride": stride}
    judge(case.arrays(), attrs)


def _four(padding):
    if isinstance(padding, int):
        return (padding,) * 4
    if len(padding) == 2:
        return (padding[0], padding[0], padding[1], padding[1])
    return tuple(padding)


@pytest.mark.parametrize("batch", [1, 3, 32, 33, 64])
def test_any_batch(batch):
    """Libraries that work through the batch in chunks fail at 33 or 64 images."""
    judge(*_data(Case((batch, 2, 4, 3), (2, 3, 2), (1, 1), (1, 0, 0, 1))))


def _data(case, dtype=np.float32, **more):
    return case.arrays(dtype, **more), case.attrs()


# -- types --------------------------------------------------------------------------------------

HALVES = {"float16": np.float16, "bfloat16": np.uint16}
HALF_CASES = ["rectangular", "groups_2_deformable_3", "odd_channels", "padding_over_kernel"]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", HALF_CASES)
def test_half_is_one_rounding_away_from_exact(name, half):
    judge(CASES[name].arrays(HALVES[half]), CASES[name].attrs())


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", HALF_CASES)
def test_half_with_float32_offset_and_mask(name, half):
    """Each gradient has its own input's type; the fp32 ones are not rounded to half."""
    data = CASES[name].arrays(HALVES[half], wide=np.float32)
    got, _ = judge(data, CASES[name].attrs())
    assert got["offset"].dtype == got["mask"].dtype == np.float32
    for name in ("offset", "mask"):
        again = rounded_to(got[name].astype(np.float64), np.float16).astype(np.float64)
        assert not np.array_equal(again, got[name])


@pytest.mark.parametrize("half", HALVES)
def test_half_coordinates_are_float32(half):
    """Column 1500.5 is no half number: base + offset must be added in fp32."""
    case = Case((1, 1, 1, 1600), (1, 1, 1), mask=False, bias=False)
    data = case.arrays(HALVES[half])
    data["offset"] = rounded_to(np.full((1, 2, 1, 1600), 0.5) * [[[[0.0]], [[1.0]]]], HALVES[half])
    judge(data, case.attrs())


@pytest.mark.parametrize("half", HALVES)
def test_half_accumulates_in_float32(half):
    """4096 products of one: a half sum of ones stops at 2048 (fp16) or 256 (bf16)."""
    case = Case((1, 512, 4, 3), (1, 4, 2), mask=False, bias=False)
    data = case.arrays(HALVES[half])
    one = rounded_to(np.ones(1), HALVES[half])[0]
    data["x"][:], data["weight"][:], data["offset"][:] = one, one, 0
    _, out = judge(data, case.attrs())
    assert np.array_equal(out, rounded_to(np.full(out.shape, 4096.0), HALVES[half]))


def test_float32_stays_float32():
    """fp32 rounded to half or TF32 on the way gives 6104, 6320, 4336 instead of these values."""
    x = np.arange(150, dtype=np.float32).reshape(2, 3, 5, 5)
    data = dict(
        x=x,
        offset=np.ones((2, 18, 3, 3), np.float32),
        weight=np.ones((5, 3, 3, 3), np.float32),
        bias=None,
        mask=np.full((2, 9, 3, 3), 2, np.float32),
    )
    first = [[1998, 2052, 1386], [2268, 2322, 1566], [1602, 1638, 1104]]
    second = [[6048, 6102, 4086], [6318, 6372, 4266], [4302, 4338, 2904]]
    for dtype in (np.float32, np.float64, np.float16, np.uint16):
        now = {k: None if v is None else rounded_to(v, dtype) for k, v in data.items()}
        (out,), _ = evaluate("dygraph", function_of({}), [now[n] for n in NAMES])
        for channel in range(5):
            assert np.array_equal(out[0, channel], rounded_to(first, dtype))
            assert np.array_equal(out[1, channel], rounded_to(second, dtype))


# -- which gradients ----------------------------------------------------------------------------


@pytest.mark.parametrize("with_mask", [True, False])
def test_every_stop_gradient_combination(with_mask):
    """All 32 (16) choices: a wanted gradient is right, an unwanted one stays None."""
    case = Case((2, 4, 4, 5), (3, 2, 3), (1, 2), (1, 0, 0, 1), mask=with_mask)
    data, attrs = case.arrays(), case.attrs()
    grad_out = cotangent(data, attrs)
    right, _ = expected(data, attrs, grad_out)
    names = [n for n in NAMES if data[n] is not None]
    for flags in itertools.product([False, True], repeat=len(names)):
        wanted = [n for n, flag in zip(names, flags) if flag]
        tensors = {n: tensor(data[n], stop_gradient=n not in wanted) for n in NAMES}
        out = function_of(attrs)(*[tensors[n] for n in NAMES])
        assert out.stop_gradient == (not wanted)
        if wanted:
            out.backward(tensor(grad_out))
        for name in names:
            grad = tensors[name].grad
            if name in wanted:
                assert grad is not None, f"{name} of {wanted}"
                assert_close(grad.numpy(), right[name], f"gradient of {name} of {wanted}")
            else:
                assert grad is None, f"{name} of {wanted}"


def test_grad_of_a_subset_by_paddle_grad():
    """paddle.grad for one input only, all others wanting gradients too."""
    data, attrs = _data(SMALL, np.float64)
    grad_out = cotangent(data, attrs)
    right, _ = expected(data, attrs, grad_out)
    for name in NAMES:
        tensors = {n: tensor(data[n], stop_gradient=False) for n in NAMES}
        out = function_of(attrs)(*[tensors[n] for n in NAMES])
        (grad,) = paddle.grad(out, tensors[name], tensor(grad_out))
        assert_close(grad.numpy(), right[name], name)


def test_gradients_accumulate_over_two_uses():
    """The same tensors used twice: gradients add up, in the graph and over backward calls."""
    data, attrs = _data(SMALL, np.float64)
    grad_out = cotangent(data, attrs)
    right, _ = expected(data, attrs, grad_out)
    tensors = [tensor(data[n], stop_gradient=False) for n in NAMES]
    for _ in range(2):
        out = function_of(attrs)(*tensors) + function_of(attrs)(*tensors)
        out.backward(tensor(grad_out))
    for name, t in zip(NAMES, tensors):
        assert_close(t.grad.numpy(), 4 * right[name], name)


def test_one_tensor_as_two_inputs():
    """Offset and mask channels computed from one tensor, as a training net does it."""
    case = Case((1, 2, 4, 5), (2, 2, 1), bias=False)
    data, attrs = _data(case, np.float64)
    branch = np.concatenate([data["offset"], data["mask"]], axis=1)
    grad_out = cotangent(data, attrs)
    right, _ = expected(data, attrs, grad_out)
    both = tensor(branch, stop_gradient=False)
    offset, mask = both[:, :4], both[:, 4:]
    out = function_of(attrs)(tensor(data["x"]), offset, tensor(data["weight"]), None, mask)
    out.backward(tensor(grad_out))
    wanted = np.concatenate([right["offset"], right["mask"]], axis=1)
    assert_close(both.grad.numpy(), wanted, "branch")


# -- layouts ------------------------------------------------------------------------------------


def _transposed(array):
    return tensor(np.moveaxis(array, 1, -1)).transpose([0, 3, 1, 2])


def _sliced(array):
    padded = np.full([s + 3 for s in array.shape], 7, array.dtype)
    padded[tuple(slice(1, 1 + s) for s in array.shape)] = array
    return tensor(padded)[tuple(slice(1, 1 + s) for s in array.shape)]


def _stepped(array):
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), 7, array.dtype)
    wide[..., ::2] = array
    return tensor(wide)[..., ::2]


@pytest.mark.parametrize("layout", [_transposed, _sliced, _stepped])
def test_non_contiguous_inputs(layout):
    data, attrs = _data(SMALL, np.float64)
    right, out_right = expected(data, attrs, np.ones_like(expected(data, attrs)[1]))
    tensors = []
    for name in NAMES:
        plain = name == "bias" and layout is _transposed
        t = tensor(data[name]) if plain else layout(data[name])
        t.stop_gradient = False
        tensors.append(t)
    out = function_of(attrs)(*tensors)
    assert_close(out.numpy(), out_right, "out")
    out.sum().backward()  # the gradient of a sum is an expanded scalar: a stride-0 tensor
    for name, t in zip(NAMES, tensors):
        assert_close(t.grad.numpy(), right[name], name)


def test_expanded_inputs_and_transposed_output_gradient():
    case = Case((3, 2, 4, 5), (2, 3, 2), (1, 2), (1, 1, 0, 0))
    data, attrs = _data(case, np.float64)
    for name in ("x", "offset", "mask"):
        data[name] = np.repeat(data[name][:1], 3, axis=0)
    grad_out = cotangent(data, attrs)
    right, _ = expected(data, attrs, grad_out)
    tensors = {n: tensor(data[n], stop_gradient=False) for n in NAMES}
    for name in ("x", "offset", "mask"):
        one = tensor(data[name][:1])
        tensors[name] = one.expand([3, *one.shape[1:]])
        tensors[name].stop_gradient = False
    out = function_of(attrs)(*[tensors[n] for n in NAMES])
    turned = out.transpose([3, 1, 0, 2])
    turned.backward(tensor(np.transpose(grad_out, (3, 1, 0, 2))))
    for name in NAMES:
        assert_close(tensors[name].grad.numpy(), right[name], name)


# -- empty tensors ------------------------------------------------------------------------------


def test_empty_batch():
    case = Case((0, 2, 5, 4), (3, 3, 2))
    got, out = judge(*_data(case))
    assert out.shape == (0, 3, 3, 3)
    assert np.array_equal(got["weight"], np.zeros((3, 2, 3, 2)))
    assert np.array_equal(got["bias"], np.zeros(3))


def test_no_input_channels_and_no_output_channels():
    """Without input channels the bias is all there is; without output channels nothing is."""
    _, out = judge(*_data(Case((2, 0, 5, 4), (3, 3, 2))))
    assert out.shape == (2, 3, 3, 3)
    got, out = judge(*_data(Case((2, 3, 5, 4), (0, 3, 2))))
    assert out.shape == (2, 0, 3, 3)
    assert not got["x"].any() and not got["offset"].any()

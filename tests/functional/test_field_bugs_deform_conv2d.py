"""Public bug reports about deformable convolutions and custom operators, one named test each.

The docstring has the wrong number; "Paddle" is 3.3.1 on the CPU unless a version is named. The
letters are this project's own list of reports.
"""

import child
import numpy as np
import paddle
import pytest
from deform_cases import NAMES, Case, function_of, judge
from modes import evaluate, tensor
from numeric import assert_close

F32 = np.float32


def array(values, shape=None, dtype=F32):
    result = np.array(values, dtype=dtype)
    return result if shape is None else result.reshape(shape)


def _deform(x, offset, weight, bias=None, mask=None, wanted=(), grad_out=None, **attrs):
    arrays = [x, offset, weight, bias, mask]
    positions = [NAMES.index(n) for n in wanted]
    grad_outs = None if grad_out is None else [grad_out]
    (out,), grads = evaluate("dygraph", function_of(attrs), arrays, positions, grad_outs)
    return out, {n: grads[NAMES.index(n)] for n in wanted}


def close(got, expected, rtol=2e-6, atol=0.0):
    np.testing.assert_allclose(got, np.reshape(expected, np.shape(got)), rtol=rtol, atol=atol)


def test_a7_constant_mask_in_backward():
    """Paddle issue 20766. Paddle: segmentation fault for every combination with a frozen mask."""
    from paddle_ops.nn import DeformConv2D

    layer = DeformConv2D(2, 4, 3, padding=1)
    x = paddle.randn([1, 2, 5, 5])
    y = layer(x, paddle.zeros([1, 18, 5, 5]), paddle.ones([1, 9, 5, 5]))
    y.sum().backward()
    plain = paddle.nn.functional.conv2d(x, layer.weight, layer.bias, padding=1)
    (expected,) = paddle.grad(plain.sum(), layer.weight)
    close(layer.weight.grad.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
    x.stop_gradient = False
    y = layer(x, paddle.zeros([1, 18, 5, 5]), paddle.ones([1, 9, 5, 5]))
    assert paddle.grad(y.sum(), x)[0].shape == [1, 2, 5, 5]


def test_a8_mask_gradient_with_frozen_offset():
    """PaddleAPITest pull 366. Paddle: mask.grad is None when offset is constant."""
    case = Case((1, 2, 5, 6), (4, 3, 3), (1, 1), (1, 1, 1, 1))
    for wanted in (("x", "weight", "mask"), ("mask",)):
        judge(case.arrays(F32), case.attrs(), wanted)


@pytest.mark.parametrize("position", range(18))
def test_a9_nan_offset(position):
    """vision 7632. Paddle: out-of-bounds read, segmentation fault in backward."""
    x = np.arange(1, 10, dtype=F32).reshape(1, 1, 3, 3)
    offset = np.zeros((1, 18, 1, 1), F32)
    offset[0, position] = np.nan
    weight, mask = np.ones((1, 1, 3, 3), F32), np.ones((1, 9, 1, 1), F32)
    out, grads = _deform(x, offset, weight, None, mask, ("x", "offset", "weight", "mask"))
    tap = position // 2
    assert out.item() == 45 - (tap + 1)
    assert all(np.isfinite(g).all() for g in grads.values())
    assert grads["mask"].ravel()[tap] == 0 and grads["weight"].ravel()[tap] == 0


def test_a9_offset_beyond_every_integer():
    """Offsets that explode in training: a conversion to int would be undefined."""
    for value in (np.inf, -np.inf, 1e10, -1e10, 3e38):
        out, grads = _deform(
            np.ones((1, 1, 3, 3), F32),
            np.full((1, 18, 1, 1), value, F32),
            np.ones((1, 1, 3, 3), F32),
            None,
            np.ones((1, 9, 1, 1), F32),
            ("x", "offset", "weight", "mask"),
        )
        assert out.item() == 0 and not any(g.any() for g in grads.values())


def test_a10_batch_of_offset_and_mask_is_checked():
    """pytorch 46628. Paddle reads foreign memory: 0, 18.2, 19, 20, 0 for the second image."""
    x = np.arange(1, 33, dtype=F32).reshape(2, 1, 4, 4)
    weight = np.ones((1, 1, 1, 1), F32)
    with pytest.raises(ValueError, match="offset"):
        _deform(x, np.zeros((1, 2, 4, 4), F32), weight)
    with pytest.raises(ValueError, match="mask"):
        _deform(x, np.zeros((2, 2, 4, 4), F32), weight, None, np.ones((1, 1, 4, 4), F32))
    large = np.zeros((64, 1, 64, 64), F32)
    with pytest.raises(ValueError, match="offset"):
        _deform(large, np.zeros((1, 18, 64, 64), F32), np.ones((1, 1, 3, 3), F32), padding=1)


def test_a11_deformable_groups_divide_the_input_channels():
    """EDVR 172. Paddle refuses (a), accepts (b) and reads past the offsets: a mix of 2 and 3."""
    x, offset = np.ones((1, 4, 2, 2), F32), np.zeros((1, 4, 2, 2), F32)
    out, _ = _deform(x, offset, np.ones((3, 4, 1, 1), F32), deformable_groups=2)
    assert np.array_equal(out, np.full((1, 3, 2, 2), 4, F32))
    with pytest.raises(ValueError, match="deformable_groups"):
        _deform(x[:, :3], offset, np.ones((2, 3, 1, 1), F32), deformable_groups=2)
    with pytest.raises(ValueError, match="deformable_groups"):
        many = np.zeros((1, 14, 2, 2), F32)
        _deform(np.ones((1, 64, 2, 2), F32), many, np.ones((7, 64, 1, 1), F32), deformable_groups=7)


A12 = [
    ((-1, 1), 0, (0, 0), (2, 0)),
    ((-1, 0.5), 0, (0, 0), (1.5, 0)),
    ((-1, -1), 0, (0, 0), (0, 0)),
    ((-0.999, 1), 0.002, (2, 0.001), (2, 0.001)),
    ((3, 1), 0, (0, 0), (0, 0)),
    ((2.999, 1), 0.008, (-8, 0.001), (-8, 0.001)),
    ((2, 2), 9, (-9, -9), (-9, -9)),
    ((0, 0), 1, (3, 1), (3, 1)),
]


@pytest.mark.parametrize("position, value, by_paddle, by_torchvision", A12)
def test_a12_offset_gradient_on_the_border(position, value, by_paddle, by_torchvision):
    """Paddle pull 74058, vision 6885: the two conventions; each is to be had by name."""
    x = np.arange(1.0, 10.0).reshape(1, 1, 3, 3)
    offset = np.array(position, float).reshape(1, 2, 1, 1)
    for rule, slope in (("paddle", by_paddle), ("torchvision", by_torchvision)):
        out, grads = _deform(
            x, offset, np.ones((1, 1, 1, 1)), wanted=("offset",), stride=3, boundary_grad=rule
        )
        close(out, [value], rtol=1e-12)
        close(grads["offset"], slope, rtol=1e-12)


def test_a13_half_outside_sampling():
    """TVM pull 7397: with clamped corners a quarter of the outputs was wrong."""
    x = np.arange(1.0, 10.0).reshape(1, 1, 3, 3)
    for position, value, slope in (
        ((2.5, 1.25), 4.125, (-8.25, 0.5)),
        ((-0.5, 0.25), 0.625, (1.25, 0.5)),
    ):
        offset = np.array(position, float).reshape(1, 2, 1, 1)
        out, grads = _deform(x, offset, np.ones((1, 1, 1, 1)), wanted=("offset",), stride=3)
        close(out, [value], rtol=1e-12)
        close(grads["offset"], slope, rtol=1e-12)


def test_a14_padding_of_height_and_width():
    """mmcv 1080: padding of height and width exchanged."""
    x = np.arange(15, dtype=F32)
    out, _ = _deform(
        x.reshape(1, 1, 5, 3), np.zeros((1, 10, 5, 3), F32), np.ones((1, 1, 5, 1), F32),
        padding=[2, 0],
    )  # fmt: skip
    expected = [[9, 12, 15], [18, 22, 26], [30, 35, 40], [30, 34, 38], [27, 30, 33]]
    assert out[0, 0].tolist() == expected
    out, _ = _deform(
        x.reshape(1, 1, 3, 5), np.zeros((1, 10, 3, 5), F32), np.ones((1, 1, 1, 5), F32),
        padding=[0, 2],
    )  # fmt: skip
    assert out[0, 0].tolist() == [[3, 6, 10, 10, 9], [18, 26, 35, 30, 24], [33, 46, 60, 50, 39]]


def test_a14_mask_is_indexed_by_output_position():
    """mmcv 2404: wrong as soon as the stride is not 1."""
    x = np.arange(1, 17, dtype=F32).reshape(1, 1, 4, 4)
    mask = array([0.1, 0.2, 0.3, 0.4], (1, 1, 2, 2))
    weight = np.ones((1, 1, 1, 1), F32)
    out, _ = _deform(x, np.zeros((1, 2, 2, 2), F32), weight, None, mask, stride=2)
    close(out, [0.1, 0.6, 2.7, 4.4])


def test_a14_offset_layout_of_two_groups():
    """mmdet 2504, vision 3673: y before x for each tap, group after group."""
    x = np.stack([np.arange(1, 10), np.arange(10, 100, 10)]).astype(F32).reshape(1, 2, 3, 3)
    offset = np.zeros((1, 4, 3, 3), F32)
    offset[0, 0] = offset[0, 3] = 1
    out, _ = _deform(x, offset, np.ones((1, 2, 1, 1), F32), deformable_groups=2)
    assert out[0, 0].tolist() == [[24, 35, 6], [57, 68, 9], [80, 90, 0]]


def test_a14_expanded_output_gradient():
    """Deformable-Convolution-V2-PyTorch 3: [[0,0,0],[0,1,1],[0,1,1]] for a sum's gradient."""
    ones = np.ones((1, 1, 10, 10), F32)
    _, grads = _deform(
        ones, np.zeros((1, 18, 10, 10), F32), np.ones((1, 1, 3, 3), F32), wanted=("weight",),
        padding=1,
    )  # fmt: skip
    assert grads["weight"][0, 0].tolist() == [[81, 90, 81], [90, 100, 90], [81, 90, 81]]


def test_a15_an_image_far_into_a_large_batch_is_computed_like_the_first():
    """Paddle pull 74058 at the size that tests can afford; `make test-large` runs beyond 2^31."""
    case = Case((20000, 3, 5, 5), (6, 3, 3), (1, 1), (1, 1, 1, 1))
    one = Case((1, *case.x[1:]), case.kernel, case.stride, case.padding).arrays(F32)
    attrs = case.attrs()
    repeated = {
        n: np.repeat(a, case.x[0], axis=0) if n in ("x", "offset", "mask") else a
        for n, a in one.items()
    }
    (out,), grads = evaluate("dygraph", function_of(attrs), [repeated[n] for n in NAMES], [0, 1, 4])
    (single,), single_grads = evaluate(
        "dygraph", function_of(attrs), [one[n] for n in NAMES], [0, 1, 4]
    )
    assert (out == single).all()
    for i in (0, 1, 4):
        assert (grads[i] == single_grads[i]).all(), NAMES[i]


def test_b2_empty_batch():
    """Paddle pull 74008: x(0,2,5,5) -> out (0,1,3,3), zero weight gradient."""
    out, grads = _deform(
        np.zeros((0, 2, 5, 5), F32), np.zeros((0, 18, 3, 3), F32), np.ones((1, 2, 3, 3), F32),
        wanted=("weight",),
    )  # fmt: skip
    assert out.shape == (0, 1, 3, 3)
    assert np.array_equal(grads["weight"], np.zeros((1, 2, 3, 3)))
    out, _ = _deform(
        np.zeros((1, 0, 5, 5), F32), np.zeros((1, 18, 3, 3), F32), np.ones((2, 0, 3, 3), F32)
    )
    assert np.array_equal(out, np.zeros((1, 2, 3, 3)))


@pytest.mark.parametrize("dtype", [np.float16, np.uint16])
def test_b3_half_types_on_the_cpu(dtype):
    """Paddle issue 25111. Paddle: fp16 and bf16 are not registered on the CPU."""
    case = Case((2, 3, 5, 4), (2, 3, 3), (1, 1), (1, 1, 1, 1))
    judge(case.arrays(dtype), case.attrs())


def test_b4_half_offset_beside_float32_x():
    """PaddleAPITest's dumps, mmcv 464: mixed types promote to fp32; gradients keep their types."""
    case = Case((1, 2, 4, 5), (3, 3, 2), mask=True)
    data = case.arrays(F32)
    for name in ("offset", "weight", "bias", "mask"):
        data[name] = data[name].astype(np.float16)
    arrays = [data[n] for n in NAMES]
    (out,), grads = evaluate("dygraph", function_of(case.attrs()), arrays, range(5))
    wide = [a.astype(F32) for a in arrays]
    (expected,), expected_grads = evaluate("dygraph", function_of(case.attrs()), wide, range(5))
    assert out.dtype == F32
    close(out, expected)
    for i, a in enumerate(arrays):
        assert grads[i].dtype == a.dtype
        assert_close(grads[i], expected_grads[i], NAMES[i])


def test_b6_plain_layer_trains():
    """Paddle issues 21701, 29481: crashes with and without mask in a plain training step."""
    from paddle_ops.nn import DeformConv2D

    for with_mask in (True, False):
        layer = DeformConv2D(3, 4, 3, padding=1)
        mask = paddle.ones([2, 9, 5, 6]) if with_mask else None
        layer(paddle.randn([2, 3, 5, 6]), paddle.zeros([2, 18, 5, 6]), mask).mean().backward()
        assert layer.weight.grad is not None and layer.bias.grad is not None


def test_b9_folded_batch_norm():
    """Paddle issue 39125: a following batch norm folds into weight and bias."""
    case = Case((2, 3, 5, 6), (4, 3, 3), (1, 1), (1, 1, 1, 1), bias=False)
    data, attrs = case.arrays(np.float64), case.attrs()
    random = np.random.RandomState(2)
    gamma, beta, mean = (random.uniform(0.5, 1, 4) for _ in range(3))
    inverse = gamma / np.sqrt(random.uniform(0.5, 1, 4))
    out, _ = _deform(*[data[n] for n in NAMES], **attrs)
    expected = (out - mean[:, None, None]) * inverse[:, None, None] + beta[:, None, None]
    data["weight"] = data["weight"] * inverse[:, None, None, None]
    data["bias"] = beta - mean * inverse
    out, _ = _deform(*[data[n] for n in NAMES], **attrs)
    close(out, expected, rtol=1e-12, atol=1e-12)


def test_b10_large_padding_and_both_kinds_of_groups():
    """Paddle pull 79106: padding over the kernel's size; groups 2 with deformable groups 2."""
    case = Case((2, 4, 3, 4), (6, 3, 2), (1, 2), (4, 4, 5, 5), groups=2, deformable_groups=2)
    judge(case.arrays(F32), case.attrs())


def test_b13_message_names_the_expected_shape():
    """PaddleOCR 7311: "output height must equal to offset map height [158]:[160]"."""
    with pytest.raises(ValueError) as caught:
        _deform(
            np.zeros((1, 1, 160, 9), F32), np.zeros((1, 18, 160, 9), F32),
            np.zeros((1, 1, 3, 3), F32),
        )  # fmt: skip
    text = str(caught.value)
    assert "deform_conv2d: offset" in text
    assert "[1, 18, 158, 7]" in text and "[1, 18, 160, 9]" in text


@pytest.mark.parametrize("batch", [33, 64, 80, 67])
def test_c3_d3_any_batch_size(batch):
    """vision 2817, mmcv 441: batch over 32, or no multiple of im2col_step."""
    case = Case((batch, 3, 4, 5), (2, 3, 3), (1, 1), (1, 1, 0, 0))
    judge(case.arrays(F32), case.attrs())


def test_c5_float32_x_with_half_offset():
    """vision 2833: "expected Half but found Float"; here it promotes."""
    case = Case((1, 2, 4, 5), (2, 3, 2), mask=False)
    data = case.arrays(F32)
    data["offset"] = data["offset"].astype(np.float16)
    out, _ = _deform(*[data[n] for n in NAMES])
    assert out.dtype == F32


def test_c12_message_names_the_mask():
    """vision 4899: the text said "offset" when the mask was wrong."""
    with pytest.raises(ValueError) as caught:
        _deform(
            np.zeros((16, 1, 16, 16), F32), np.zeros((16, 18, 8, 8), F32),
            np.zeros((1, 1, 3, 3), F32), None, np.zeros((16, 9, 16, 16), F32),
            stride=2, padding=1,
        )  # fmt: skip
    assert str(caught.value).startswith("deform_conv2d: mask: ")
    assert "[16, 9, 8, 8]" in str(caught.value)


def test_e1_backward_is_reentrant():
    """DCNv2 8: "backward is not reentrant". Twice through one graph gives the same bits."""
    case = Case((2, 6, 9, 8), (5, 3, 3), (1, 1), (1, 1, 1, 1))
    data = case.arrays(np.float64)
    tensors = [tensor(data[n], stop_gradient=False) for n in NAMES]
    out = function_of(case.attrs())(*tensors).sum()
    first = paddle.grad(out, tensors, retain_graph=True)
    second = paddle.grad(out, tensors)
    for a, b in zip(first, second):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_h13_operators_are_registered_by_importing_the_package():
    """Paddle issues 42678: "operator not registered" in a process that only loads a model."""
    printed = child.run(
        """
import paddle_ops
from paddle.base.framework import OpProtoHolder
names = OpProtoHolder.instance().op_proto_map
print(all(f"paddle_ops_{n}" in names
          for n in ("deform_conv2d", "sigmoid_cross_entropy_with_logits")))
"""
    )
    assert printed.split()[-1] == "True"


def test_h15_gradients_of_non_adjacent_inputs():
    """Paddle pull 48656: gradients of inputs {a, d, e} of {a..e} came back None."""
    case = Case((1, 2, 4, 5), (2, 3, 2))
    judge(case.arrays(F32), case.attrs(), ("x", "bias", "mask"))

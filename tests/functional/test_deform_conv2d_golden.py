"""Numbers that others published, and numbers that released libraries compute.

The reference is judged by the same vectors, so that it and the operator cannot be wrong together.
"""

import numpy as np
import pytest
import tolerances
from deform_cases import NAMES, function_of
from golden import published, torchvision
from modes import evaluate
from numeric import assert_close, assert_elements
from reference import deform_conv2d as reference

PUBLISHED = published()
RANDOM = torchvision()
WITH_GRADIENTS = [name for name, case in PUBLISHED.items() if case["float64"]]


def _reference(case, grad_out=None, rule="paddle"):
    inputs = [case[n] for n in ("x", "offset", "weight", "bias")]
    out = reference.forward(*inputs, mask=case["mask"], **case["attrs"])
    if grad_out is None:
        return {"out": out}
    grads = reference.backward(
        grad_out, *inputs, mask=case["mask"], boundary_grad=rule, **case["attrs"]
    )
    return {"out": out, **{f"grad_{n}": g for n, g in grads.items() if g is not None}}


def _operator(case, dtype, grad_out=None, rule="paddle"):
    arrays = [None if case[n] is None else case[n].astype(dtype) for n in NAMES]
    wanted = [i for i, a in enumerate(arrays) if a is not None] if grad_out is not None else []
    grad_outs = None if grad_out is None else [grad_out.astype(dtype)]
    function = function_of({**case["attrs"], "boundary_grad": rule})
    (out,), grads = evaluate("dygraph", function, arrays, wanted, grad_outs)
    return {"out": out, **{f"grad_{NAMES[i]}": g for i, g in grads.items()}}


def test_all_vectors_are_here():
    assert (len(PUBLISHED), len(WITH_GRADIENTS), len(RANDOM)) == (38, 35, 4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_output(name, dtype):
    case = PUBLISHED[name]
    for out in (_operator(case, dtype)["out"], _reference(case)["out"]):
        expected = case["published_out"].astype(out.dtype)
        assert_elements(out, expected, tolerances.PUBLISHED, 1.0, name)


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_float64_output_and_gradients(name):
    case = PUBLISHED[name]
    grad_out = np.ones(case["published_out"].shape)
    for computed in (_operator(case, np.float64, grad_out), _reference(case, grad_out)):
        for key, expected in case["float64"].items():
            assert_close(computed[key], expected, f"{name} {key}")


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_float32_output_and_gradients(name):
    """fp32 inputs: against the reference on the rounded inputs."""
    case = {
        k: v.astype(np.float32) if isinstance(v, np.ndarray) else v
        for k, v in PUBLISHED[name].items()
    }
    grad_out = np.ones(case["published_out"].shape)
    computed, expected = _operator(case, np.float32, grad_out), _reference(case, grad_out)
    for key, value in expected.items():
        assert_close(computed[key], value, f"{name} {key}")


@pytest.mark.parametrize("rule", ["paddle", "torchvision"])
@pytest.mark.parametrize("number", range(4))
def test_random_cases(number, rule):
    case = RANDOM[number]
    for computed in (
        _operator(case, np.float64, case["grad_out"], rule),
        _reference(case, case["grad_out"], rule),
    ):
        keys = {"out"} | {f"grad_{n}" for n in NAMES if case[n] is not None}
        assert keys == set(computed)
        for key in keys:
            assert_close(computed[key], case[key], f"{number} {key}")


# Offset gradients of `onnx_multi_offset_group`, which Paddle refuses, by torchvision; no sample
# lies on the border.
MULTI_GROUP = {
    "grad_x": "0.5 2 1 2.5 4 2 1 2 1 1 2 1 2.1 3.9 2 1 2 1",
    "grad_weight": "9.5 12 20 24 24 20 12.1 8",
    "grad_offset": """3 3 3 3 1 1 1 1 3 3 3 3 1 -2 1 -5 3 3 -6 -7 1 1 1 1 3 3 -7 -8 1 -5 1 -8
        -3 -3 -3 -3 -1 -1 -1 -1 -3 -3 -3 -3 -1 -6 -1 -3 -3 -3 -2 -1 -1 -1 -1 -1 -3 -3 -1 0
        -1 -3 -1 0""",
}


def test_gradients_of_more_deformable_groups_than_outputs():
    case = PUBLISHED["onnx_multi_offset_group"]
    grad_out = np.ones(case["published_out"].shape)
    for computed in (_operator(case, np.float64, grad_out), _reference(case, grad_out)):
        for key, text in MULTI_GROUP.items():
            expected = np.array(text.split(), float).reshape(computed[key].shape)
            assert_close(computed[key], expected, key)


# `mmcv_dcnv2_zero_offset` under the other rule: what differs in torchvision's offset gradient.
def test_mmcv_case_under_both_boundary_rules():
    case = PUBLISHED["mmcv_dcnv2_zero_offset"]
    grad_out = np.ones(case["published_out"].shape)
    paddle_rule = case["float64"]["grad_offset"]
    torchvision_rule = paddle_rule.copy()
    torchvision_rule[0, 0, 0] = [0, 0.5, 1, 1.5]
    torchvision_rule[0, 1, 1:, 0] = 0.5
    torchvision_rule[0, 2, 0] = [0.5, 1, 1.5, 0]
    torchvision_rule[0, 5, :3, 0] = 0.5
    assert (paddle_rule != torchvision_rule).sum() == 12
    for rule, expected in (("paddle", paddle_rule), ("torchvision", torchvision_rule)):
        for computed in (
            _operator(case, np.float64, grad_out, rule),
            _reference(case, grad_out, rule),
        ):
            assert_close(computed["grad_offset"], expected, rule)


def test_clamping_libraries_differ():
    """nGraph's `real_default` is published for a clamping rule; this is the zero-padding one."""
    x = np.arange(1.0, 17.0).reshape(1, 1, 4, 4)
    offset = np.full((1, 8, 3, 3), 1.1)
    weight = np.array([1.0, 2, -1, -2]).reshape(1, 1, 2, 2)
    expected = [[-12, -11.2, -3.6], [-6.37, -5.69, -1.8], [39.87, 39.51, 12.96]]
    (out,), _ = evaluate("dygraph", function_of({}), [x, offset, weight, None, None])
    np.testing.assert_allclose(out[0, 0], expected, rtol=1e-12)


ORT_FILLED = [  # x, weight, attributes -> every output; all data 0.1, offsets 0, no mask or bias
    ((2, 4, 3, 3), (2, 2, 2, 2), {"groups": 2, "deformable_groups": 2}, 0.08),
    ((1, 4, 3, 3), (2, 2, 2, 2), {"groups": 2}, 0.08),
    ((1, 4, 3, 3), (2, 4, 2, 2), {"deformable_groups": 2}, 0.16),
    ((64, 1, 3, 3), (1, 1, 2, 2), {}, 0.04),
    ((1, 1, 4, 5), (1, 1, 2, 3), {}, 0.06),
    ((1, 1, 5, 5), (1, 1, 2, 2), {"dilation": 2}, 0.04),
]


@pytest.mark.parametrize("x, weight, attrs, value", ORT_FILLED)
def test_onnx_runtime_constant_cases(x, weight, attrs, value):
    """Those of ONNX Runtime's tests that are not among the 38: no mask, decoupled groups, N 64."""
    oh, ow = reference.output_size(*x[2:], *weight[2:], dilation=attrs.get("dilation", 1))
    taps = attrs.get("deformable_groups", 1) * weight[2] * weight[3]
    offset = np.zeros((x[0], 2 * taps, oh, ow))
    arrays = [np.full(x, 0.1), offset, np.full(weight, 0.1), None, None]
    (out,), _ = evaluate("dygraph", function_of(attrs), arrays)
    np.testing.assert_allclose(out, np.full((x[0], weight[0], oh, ow), value), rtol=1e-12)


def test_tiny_offset():
    x = np.ones((1, 1, 3, 3), np.float32)
    offset = np.full((1, 2, 3, 3), 1e-6, np.float32)
    weight = np.ones((1, 1, 1, 1), np.float32)
    (out,), _ = evaluate("dygraph", function_of({}), [x, offset, weight, None, None])
    np.testing.assert_allclose(out, np.ones((1, 1, 3, 3)), atol=1e-5)


# -- mmcv's tests of a whole layer: a convolution makes the offsets (and the mask) --------------

V1_OFFSET_WEIGHT = """.1 .4 .6 .1 .3 .2 .1 .3 .5 .5 .2 .8 .8 .3 .9 .1 .3 .1 .2 .5 .3 .7 .5 .3
    .6 .2 .5 .3 .4 .1 .8 .4"""
V1_GRAD_OFFSET_WEIGHT = """1.44 2.88 0 1.44 -.72 -1.44 0 -.72 0 0 0 0 0 0 0 0 -.10 -.20 0 -.10
    -.08 -.16 0 -.08 -.54 -1.08 0 -.54 -.54 -1.08 0 -.54"""
V2_GRAD_OFFSET_WEIGHT = """-7 -4 0 0 -9 7.5 -6 5 -4 -7 0 0 -7.5 -9 -5 -6 -7 -4 -7 -4 -6 5 -9 7.5
    -4 -7 -4 -7 -5 -6 -7.5 -9 10.5 6 7 4 6 10.5 4 7 7 4 10.5 6 4 7 6 10.5"""


def _array(text, shape):
    return np.array(text.split(), float).reshape(shape)


def _layer(x, offset_weight, offset_bias, weight, modulated, padding, rule="paddle"):
    """Output and gradients of sum(out): {x, offset_weight, offset_bias, weight}."""
    import paddle
    from modes import tensor

    arrays = dict(x=x, offset_weight=offset_weight, offset_bias=offset_bias, weight=weight)
    t = {k: tensor(np.asarray(v, np.float64), stop_gradient=False) for k, v in arrays.items()}
    conv = paddle.nn.functional.conv2d(t["x"], t["offset_weight"], t["offset_bias"], 1, padding)
    offset, mask = (
        (conv[:, :8], paddle.nn.functional.sigmoid(conv[:, 8:])) if modulated else (conv, None)
    )
    attrs = {"padding": padding, "boundary_grad": rule}
    out = function_of(attrs)(t["x"], offset, t["weight"], None, mask)
    out.sum().backward()
    return out.numpy(), {k: v.grad.numpy() for k, v in t.items()}


def test_mmcv_dcnv1_layer():
    """One image of mmcv's ten; its tolerance is 1e-3."""
    x = _array("1 2 3 0 1 2 3 5 2", (1, 1, 3, 3))
    bias = _array(".7 .1 .8 .5 .6 .5 .4 .7", 8)
    weight = _array(".4 .2 .1 .9", (1, 1, 2, 2))
    out, grads = _layer(x, _array(V1_OFFSET_WEIGHT, (8, 1, 2, 2)), bias, weight, False, 0)
    expected = {
        "x": _array("-.666 .204 0 .030 -.416 .012 0 .252 .129", x.shape),
        "offset_weight": _array(V1_GRAD_OFFSET_WEIGHT, (8, 1, 2, 2)),
        "offset_bias": _array("1.44 -.72 0 0 -.10 -.08 -.54 -.54", 8),
        "weight": _array("3.62 0 .40 .18", weight.shape),
    }
    np.testing.assert_allclose(out.ravel(), [1.65, 0, 0, 0], rtol=1e-3)
    for name, value in expected.items():
        np.testing.assert_allclose(grads[name], value, rtol=1e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("rule", ["paddle", "torchvision"])
def test_mmcv_dcnv2_layer(rule):
    """The loss reaches the layer through offsets of exactly 0: the boundary rule decides."""
    x = _array("1 2 3 1 2 3 1 2 3", (1, 1, 3, 3))
    zeros = np.zeros((12, 1, 2, 2))
    out, grads = _layer(x, zeros, np.zeros(12), np.ones((1, 1, 2, 2)), True, 1, rule)
    expected = _array("0.5 1.5 2.5 1.5 1 3 5 3 1 3 5 3 .5 1.5 2.5 1.5", (1, 1, 4, 4))
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    np.testing.assert_allclose(grads["x"], np.full(x.shape, 2), rtol=1e-12)
    np.testing.assert_allclose(grads["weight"], np.full((1, 1, 2, 2), 9), rtol=1e-12)
    by_rule = {
        "paddle": "-3 -1.5 -3 -1.5 -3 -1.5 -3 -1.5 4.5 4.5 4.5 4.5",
        "torchvision": "0 0 0 -1.5 -3 0 -3 -1.5 4.5 4.5 4.5 4.5",
    }
    np.testing.assert_allclose(grads["offset_bias"], _array(by_rule[rule], 12), rtol=1e-12)
    weight, got = _array(V2_GRAD_OFFSET_WEIGHT, (12, 1, 2, 2)), grads["offset_weight"]
    if rule == "torchvision":  # published for the first four channels; channel 5 differs as well
        weight[:4] = _array("-7 -4 7 4 -9 9 -6 6 -4 -7 4 7 -7.5 -9 -5 -6", (4, 1, 2, 2))
        weight, got = np.delete(weight, 5, axis=0), np.delete(got, 5, axis=0)
    np.testing.assert_allclose(got, weight, rtol=1e-12)

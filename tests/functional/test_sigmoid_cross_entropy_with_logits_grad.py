"""Gradients of sigmoid_cross_entropy_with_logits on request, and the gradients of these."""

import numpy as np
import paddle
import pytest
import tolerances
from cross_entropy_cases import (
    FORMS,
    IGNORED,
    NAMES,
    SUBSETS,
    arrays,
    attrs_of,
    cotangent,
    function_of,
    judge,
    reference_of,
)
from modes import tensor
from numeric import as_float64, assert_close, assert_elements, rounded_to

from paddle_ops import sigmoid_cross_entropy_with_logits

DTYPES = [np.float32, np.float64, np.float16, np.uint16]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wanted", SUBSETS)
def test_every_combination_of_stop_gradient(form, wanted):
    judge(arrays(np.float64, form), attrs_of(form, ignore_index=IGNORED), wanted=wanted)


def _first_order(form, tensors, grad_out, attrs):
    inputs = [t for t in tensors if t is not None]
    loss = function_of(attrs_of(form, **attrs))(*tensors)
    return paddle.grad(loss, inputs, [grad_out], create_graph=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("normalize", [False, True])
def test_double_gradient_against_finite_differences(form, normalize):
    """All second derivatives: of x, label, pos_weight and grad_out, through all three gradients."""
    attrs = {"normalize": normalize, "ignore_index": IGNORED}
    data = arrays(np.float64, form, (3, 4))
    names = [n for n in NAMES if data[n] is not None]
    data["x"].reshape(-1)[:2] = 0.4, -0.3  # away from the kink
    values = [data[n] for n in names] + [cotangent(data)]
    random = np.random.RandomState(8)
    factors = [paddle.to_tensor(random.normal(size=(3, 4))) for _ in names]

    def objective(*arguments):
        *inputs, grad_out = arguments
        full = inputs + [None] * (3 - len(inputs))
        grads = _first_order(form, full, grad_out, attrs)
        return sum((g * f).sum() for g, f in zip(grads, factors))

    tensors = [tensor(v, stop_gradient=False) for v in values]
    second = paddle.grad(objective(*tensors), tensors)
    kept = data["label"] != IGNORED
    for i, grad in enumerate(second):
        numeric = np.zeros((3, 4))
        for at in np.ndindex(3, 4):
            ends = []
            for step in (tolerances.NUMERIC_DELTA, -tolerances.NUMERIC_DELTA):
                moved = [v.copy() for v in values]
                moved[i][at] += step
                ends.append(float(objective(*[tensor(m, stop_gradient=False) for m in moved])))
            numeric[at] = (ends[0] - ends[1]) / (2 * tolerances.NUMERIC_DELTA)
        got = grad.numpy()
        np.testing.assert_array_equal(got[~kept], 0)
        limit, floor = tolerances.FP64_GRAD, tolerances.FP64_GRAD_FLOOR
        assert_elements(got[kept], numeric[kept], limit, floor, f"second {i}")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_double_gradient_in_x_against_the_reference(form, dtype):
    attrs = attrs_of(form, ignore_index=IGNORED, normalize=True)
    data, grad_out = arrays(dtype, form), cotangent(arrays(dtype, form))
    grad_grad_x = rounded_to(np.random.RandomState(9).uniform(-1, 1, (4, 5)), dtype)
    tensors = [None if data[n] is None else tensor(data[n], n != "x") for n in NAMES]
    g = tensor(grad_out, stop_gradient=False)
    (grad_x,) = paddle.grad(function_of(attrs)(*tensors), [tensors[0]], [g], create_graph=True)
    got = paddle.grad(grad_x, [tensors[0], g], [tensor(grad_grad_x)])
    right = reference_of(data, attrs).double_backward(as_float64(grad_out), as_float64(grad_grad_x))
    assert_close(got[0].numpy(), right["x"], "x")
    assert_close(got[1].numpy(), right["grad_out"], "grad_out")


def test_gradient_penalty_trains():
    x = paddle.to_tensor([0.3, -2.0], dtype="float64", stop_gradient=False)
    loss = sigmoid_cross_entropy_with_logits(x, paddle.ones([2], "float64"))
    (grad,) = paddle.grad(loss.sum(), [x], create_graph=True)
    (grad**2).sum().backward()
    s = 1 / (1 + np.exp(-x.numpy()))
    np.testing.assert_allclose(x.grad.numpy(), 2 * (s - 1) * s * (1 - s), rtol=1e-12)

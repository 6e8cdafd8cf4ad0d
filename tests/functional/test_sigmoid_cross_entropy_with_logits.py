"""sigmoid_cross_entropy_with_logits: values, gradients, limits, types, layouts, public bugs."""

import numpy as np
import paddle
import pytest
import tolerances
from cross_entropy_cases import (
    FORMS,
    IGNORED,
    NAMES,
    arrays,
    attrs_of,
    function_of,
    judge,
    reference_of,
)
from modes import tensor
from numeric import assert_close, assert_elements, rounded_to

from paddle_ops import sigmoid_cross_entropy_with_logits

DTYPES = [np.float32, np.float64, np.float16, np.uint16]
INF = np.inf


def loss_and_grad(x, label, pos_weight=None, dtype="float32", **attrs):
    """Loss and d loss / d x as NumPy arrays."""
    x = paddle.to_tensor(np.asarray(x, dtype), stop_gradient=False)
    label = paddle.to_tensor(np.asarray(label, dtype))
    if pos_weight is not None:
        pos_weight = paddle.to_tensor(np.asarray(pos_weight, dtype))
    loss = sigmoid_cross_entropy_with_logits(x, label, pos_weight, **attrs)
    (grad,) = paddle.grad(loss, [x], [paddle.ones_like(loss)])
    return loss.numpy(), grad.numpy()


# -- values and gradients ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("normalize", [False, True])
def test_against_the_reference(form, dtype, normalize):
    attrs = attrs_of(form, normalize=normalize, ignore_index=IGNORED)
    judge(arrays(dtype, form), attrs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1, 3), (1, 2, 3, 1, 2), (7, 1031)])
def test_shapes(form, shape):
    data = arrays(np.float64, form, shape, ignored=False)
    tensors = [
        None if data[n] is None else paddle.to_tensor(data[n], stop_gradient=False) for n in NAMES
    ]
    loss = function_of(attrs_of(form))(*tensors)
    assert tuple(loss.shape) == shape
    reference = reference_of(data, attrs_of(form))
    assert_close(loss.numpy(), reference.forward(), "loss")
    loss.sum().backward()
    right = reference.backward(np.ones(shape))
    for name, t in zip(NAMES, tensors):
        if t is not None:
            assert_close(t.grad.numpy(), right[name], name)


@pytest.mark.parametrize("form", FORMS)
def test_fp32_is_accurate_over_the_whole_range(form):
    """Each element of loss and gradient keeps its digits where nothing cancels."""
    random = np.random.RandomState(2)
    x = np.concatenate([random.normal(0, s, 2000) for s in (1e-4, 0.1, 3, 30)])
    x = np.clip(x, -80, 80)  # beyond it exp is subnormal and has fewer digits
    label = random.randint(0, 2, x.shape)
    data = {"x": x, "label": label, "pos_weight": random.uniform(0.5, 2, x.shape)}
    data = {n: a.astype(np.float32) for n, a in data.items()}
    if form == "none":
        data["pos_weight"] = None
    elif form == "softplus":  # what a weighted cross entropy passes
        data["pos_weight"] = np.where(label == 1, data["pos_weight"], 1).astype(np.float32)
    _, loss = judge(data, attrs_of(form))
    reference = reference_of(data, attrs_of(form)).forward().astype(np.float32)
    assert_elements(loss, reference, tolerances.FP32_ELEMENTARY, 0.0, "loss")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "dtype, x, exact", [("float32", 17, 4.139938e-8), ("float64", 40, 4.248354255291589e-18)]
)
def test_tiny_losses_keep_their_digits(form, dtype, x, exact):
    weight = None if form == "none" else [1, 1]
    loss, grad = loss_and_grad([x, -x], [1, 0], weight, dtype, **attrs_of(form))
    np.testing.assert_allclose(loss, [exact, exact], rtol=tolerances.PUBLISHED)
    np.testing.assert_allclose(grad, [-exact, exact], rtol=tolerances.PUBLISHED)


def test_loss_at_zero_is_the_same_for_both_zeros():
    loss, grad = loss_and_grad([0.0, -0.0], [0.25, 0.25])
    np.testing.assert_array_equal(loss, np.float32(np.log(2)))
    np.testing.assert_array_equal(grad, np.float32(0.25))


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log1p_gradient_at_the_kink_is_the_central_one(zero, dtype):
    label = [0, 1, 0.5, 0.25, 1]
    _, grad = loss_and_grad([zero] * 5, label, [3, 0.2, 7, 0, 1], dtype)
    np.testing.assert_array_equal(grad, 0.5 - np.asarray(label))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softplus_gradient_at_zero(dtype):
    _, grad = loss_and_grad([0.0] * 3, [0, 1, 0.5], [3, 1, 2], dtype, pos_weight_form="softplus")
    np.testing.assert_array_equal(grad, [-0.5, -0.5, -0.5])


@pytest.mark.parametrize("form", ["log1p", "softplus"])
def test_pos_weight_of_one_changes_nothing(form):
    data = arrays(np.float32, "none", ignored=False)
    weighted = {**data, "pos_weight": np.ones_like(data["x"])}
    plain, loss = judge(data, {}, wanted=["x", "label"])
    same, loss_too = judge(weighted, attrs_of(form), wanted=["x", "label"])
    np.testing.assert_array_equal(loss, loss_too)
    for name in plain:
        np.testing.assert_array_equal(plain[name], same[name])


@pytest.mark.parametrize("form", ["log1p", "softplus"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (1, 5), (4, 1), (1,), ()])
def test_pos_weight_broadcasts(form, dtype, shape):
    data = arrays(dtype, form)
    weight = rounded_to(np.random.RandomState(3).uniform(0.5, 2, shape), dtype)
    wide = {**data, "pos_weight": np.ascontiguousarray(np.broadcast_to(weight, (4, 5)))}
    attrs = attrs_of(form, ignore_index=IGNORED)
    if np.dtype(dtype).itemsize > 2 and shape != ():
        judge({**data, "pos_weight": weight}, attrs)
    pos_weight = paddle.to_tensor(weight, stop_gradient=False).reshape(list(shape))
    x, label = tensor(data["x"]), tensor(data["label"])
    loss = sigmoid_cross_entropy_with_logits(x, label, pos_weight, **attrs)
    np.testing.assert_array_equal(loss.numpy(), judge(wide, attrs, wanted=())[1])


# -- limits --------------------------------------------------------------------------------------

# (x, label, weight, loss, d loss / d x), each the limit of the formula
LIMITS = {
    "none": [
        (INF, 1, None, 0, 0),
        (INF, 0, None, INF, 1),
        (INF, 0.5, None, INF, 0.5),
        (-INF, 0, None, 0, 0),
        (-INF, 1, None, INF, -1),
        (-INF, 0.5, None, INF, -0.5),
        (1000, 1, None, 0, 0),
        (1000, 0, None, 1000, 1),
        (-1000, 0, None, 0, 0),
        (-1000, 1, None, 1000, -1),
    ],
    "log1p": [
        (INF, 1, 3, 0, 0),
        (INF, 0, 3, INF, 1),
        (-INF, 0, 3, 0, 0),
        (-INF, 1, 3, INF, -1),
        (-INF, 0, 0, 0, 0),
        (INF, 1, 0, 0, 0),
        (2, 1, 0, 0, 0),
    ],
    "softplus": [
        (INF, 1, 3, 0, 0),
        (INF, 0, 3, INF, 1),
        (-INF, 1, 3, INF, -3),
        (-INF, 0, 1, 0, 0),
        (-INF, 0, 3, INF, -2),
        (-INF, 1, 0, 0, 0),
        (INF, 1, 0, 0, 0),
        (-7, 1, 0, 0, 0),
        (-1000, 1, 3, 3000, -3),
        (-120, 1, 1, 120, -1),
        (-1000, 0, 1, 0, 0),
    ],
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("form", FORMS)
def test_limits(form, dtype):
    x, label, weight, loss, grad = zip(*LIMITS[form])
    weight = None if form == "none" else weight
    got = loss_and_grad(x, label, weight, dtype, **attrs_of(form))
    np.testing.assert_array_equal(got[0], loss)
    np.testing.assert_array_equal(got[1], grad)


@pytest.mark.parametrize("form", FORMS)
def test_nan_in_x_gives_nan(form):
    """Also where every coefficient is 0."""
    weight = None if form == "none" else [0, 1, 0, 1]
    loss, grad = loss_and_grad([np.nan] * 4, [0, 1, 1, 0.5], weight, **attrs_of(form))
    assert np.isnan(loss).all()
    assert np.isnan(grad).all()


@pytest.mark.parametrize("form", FORMS)
def test_zero_cotangent_silences_infinite_x(form):
    """A masked element must not turn the gradient of a label into NaN."""
    data = {"x": np.array([INF, -INF, 1.0]), "label": np.array([0.5, 0.5, 0.5])}
    data["pos_weight"] = None if form == "none" else np.ones(3)
    tensors = [None if data[n] is None else tensor(data[n], False) for n in NAMES]
    loss = function_of(attrs_of(form))(*tensors)
    grads = paddle.grad(loss, [t for t in tensors if t is not None], [paddle.zeros([3], "float64")])
    for grad in grads:
        np.testing.assert_array_equal(grad.numpy(), 0)


def test_cotangent_is_applied():
    grad_out = paddle.to_tensor([2.0, 0.0, -1.0])
    x = paddle.to_tensor([0.0, 0.0, 0.0], stop_gradient=False)
    loss = sigmoid_cross_entropy_with_logits(x, paddle.zeros([3]))
    (grad,) = paddle.grad(loss, [x], [grad_out])
    np.testing.assert_array_equal(grad.numpy(), [1, 0, -0.5])


# -- ignore_index and normalize ------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("normalize", [False, True])
def test_ignored_elements_are_zero_whatever_x_is(form, normalize):
    x = np.array([np.nan, INF, -INF, 3.0, 1.0])
    data = {"x": x, "label": np.array([9.0, 9, 9, 9, 1]), "pos_weight": None}
    if form != "none":
        data["pos_weight"] = np.array([np.nan, INF, 2, 2, 2])
    tensors = [None if data[n] is None else tensor(data[n], False) for n in NAMES]
    loss = function_of(attrs_of(form, ignore_index=9, normalize=normalize))(*tensors)
    results = [loss] + paddle.grad(loss.sum(), [t for t in tensors if t is not None])
    for result in results:
        np.testing.assert_array_equal(result.numpy()[:4], 0)
        assert result.numpy()[4] != 0


@pytest.mark.parametrize("label", ["float32", "int64", "int8", "bool"])
def test_ignore_index_and_label_types(label):
    ignored = 1 if label == "bool" else -1
    y = np.array([0, ignored, 0, ignored]).astype(label)
    x = paddle.to_tensor([1.0, 2, 3, 4], stop_gradient=False)
    loss = sigmoid_cross_entropy_with_logits(x, paddle.to_tensor(y), ignore_index=ignored)
    (grad,) = paddle.grad(loss.sum(), [x])
    kept = np.array([1, 0, 1, 0])
    np.testing.assert_array_equal(loss.numpy() != 0, kept)
    np.testing.assert_array_equal(grad.numpy() != 0, kept)


@pytest.mark.parametrize(
    "distance, ignored", [(0, 1), (9e-6, 1), (-9e-6, 1), (1.1e-5, 0), (0.3, 0)]
)
def test_width_of_ignore_index(distance, ignored):
    loss, _ = loss_and_grad([2.0], [distance], dtype="float64", ignore_index=0)
    assert (loss[0] == 0) == bool(ignored)


def test_default_ignore_index():
    loss, _ = loss_and_grad([2.0, 2.0], [-100, -1])
    assert loss[0] == 0
    assert loss[1] != 0


# -- types and layouts ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("label", ["bool", "uint8", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("form", FORMS)
def test_integer_and_bool_labels(dtype, label, form):
    data = arrays(dtype, form)
    hard = np.random.RandomState(4).randint(0, 2, data["x"].shape)
    _, expected = judge({**data, "label": rounded_to(hard, dtype)}, attrs_of(form), wanted=["x"])
    wanted = [n for n in ("x", "pos_weight") if data[n] is not None]
    _, loss = judge({**data, "label": hard.astype(label)}, attrs_of(form), wanted=wanted)
    np.testing.assert_array_equal(loss, expected)


def test_integer_label_with_stop_gradient_false_gets_none():
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    label = paddle.to_tensor([0, 1], stop_gradient=False)
    sigmoid_cross_entropy_with_logits(x, label).sum().backward()
    assert label.grad is None
    assert x.grad.shape == [2]


@pytest.mark.parametrize("dtype", [np.float16, np.uint16])
@pytest.mark.parametrize("form", FORMS)
def test_half_x_with_float32_label_and_weight(dtype, form):
    data = arrays(np.float32, form)
    judge({**data, "x": rounded_to(data["x"], dtype)}, attrs_of(form, ignore_index=IGNORED))


@pytest.mark.parametrize("form", FORMS)
def test_non_contiguous_inputs(form):
    data = arrays(np.float64, form, (6, 8))
    attrs = attrs_of(form, ignore_index=IGNORED)
    views = {
        "transposed": lambda a: a.transpose([1, 0]),
        "sliced": lambda a: a[1:5, ::3],
        "row": lambda a: a[2],
        "column": lambda a: a[:, 3],
        "expanded": lambda a: a[:1].expand([4, 8]),
    }
    for what, view in views.items():
        bases = [None if data[n] is None else tensor(data[n], False) for n in NAMES]
        inputs = [None if b is None else view(b) for b in bases]
        loss = function_of(attrs)(*inputs)
        seen = {n: None if t is None else t.numpy() for n, t in zip(NAMES, inputs)}
        reference = reference_of(seen, attrs)
        assert_close(loss.numpy(), reference.forward(), what)
        grad_out = np.random.RandomState(6).uniform(-1, 1, loss.shape[::-1])
        wanted = [t for t in inputs if t is not None]
        grads = paddle.grad(loss, wanted, [paddle.to_tensor(grad_out).T])
        right = reference.backward(grad_out.T)
        for name, grad in zip([n for n in NAMES if data[n] is not None], grads):
            assert_close(grad.numpy(), right[name], f"{what} {name}")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4)])
def test_empty_tensors(form, shape):
    x = paddle.zeros(list(shape))
    x.stop_gradient = False
    weight = None if form == "none" else paddle.ones([shape[-1]])
    for normalize in (False, True):
        attrs = attrs_of(form, normalize=normalize)
        loss = sigmoid_cross_entropy_with_logits(x, paddle.zeros(list(shape)), weight, **attrs)
        assert tuple(loss.shape) == shape
        (grad,) = paddle.grad(loss, [x], [loss.detach()])
        assert tuple(grad.shape) == shape

"""Public bug reports about the cross entropy, one named test each.

The docstring has the wrong number; "Paddle" is 3.3.1 on the CPU unless a version is named. The
letters are this project's own list of reports.
"""

import numpy as np
import paddle
import pytest
from modes import evaluate, tensor
from numeric import central_difference, rounded_to
from reference.sigmoid_cross_entropy_with_logits import Reference

F32 = np.float32


def array(values, shape=None, dtype=F32):
    result = np.array(values, dtype=dtype)
    return result if shape is None else result.reshape(shape)


def _cross_entropy(x, label, grads=True, dtype=F32, pos_weight=None, **attrs):
    """(loss, gradient of x)."""
    from paddle_ops import sigmoid_cross_entropy_with_logits

    def function(a, b, w):
        return sigmoid_cross_entropy_with_logits(a, b, w, **attrs)

    arrays = [array(x, dtype=dtype), array(label, dtype=dtype), None]
    if pos_weight is not None:
        arrays[2] = array(pos_weight, dtype=dtype)
    (loss,), found = evaluate("dygraph", function, arrays, [0])
    return loss, found[0]


def _bce(x, label, dtype=F32, **attrs):
    """(loss, gradient of x) of binary_cross_entropy_with_logits; attrs may hold arrays."""
    from paddle_ops import binary_cross_entropy_with_logits

    attrs = {k: tensor(v) if isinstance(v, np.ndarray) else v for k, v in attrs.items()}

    def function(a, b):
        return binary_cross_entropy_with_logits(a, b, **attrs)

    arrays = [array(x, dtype=dtype), array(label, dtype=dtype)]
    (loss,), found = evaluate("dygraph", function, arrays, [0])
    return loss, found[0]


def close(got, expected, rtol=2e-6, atol=0.0):
    np.testing.assert_allclose(got, np.reshape(expected, np.shape(got)), rtol=rtol, atol=atol)


def test_a1_gradient_at_zero():
    """PaddlePaddle/Paddle pull 64253. Paddle: [-0.5, -1.5, -1, -0.75]."""
    for zero in (0.0, -0.0):
        loss, grad = _cross_entropy([zero] * 4, [0, 1, 0.5, 0.25])
        close(loss, [0.6931472] * 4)
        assert grad.tolist() == [0.5, -0.5, 0, 0.25]


def test_a1_first_step_of_a_zero_initialised_classifier():
    """The same fault as users meet it: Paddle's first SGD step goes the wrong way (-0.5)."""
    from paddle_ops.nn import BCEWithLogitsLoss

    for pos_weight in (None, paddle.ones([1])):
        weight = tensor(array([0.0], (1, 1)), stop_gradient=False)
        logits = paddle.matmul(paddle.ones([2, 1]), weight)
        BCEWithLogitsLoss(pos_weight=pos_weight)(logits, paddle.zeros([2, 1])).backward()
        assert weight.grad.item() == 0.5


def test_a2_normalize_with_every_label_ignored():
    """Paddle issue 70896; caffe 2335. Paddle on the CPU: NaN in loss and gradient."""
    loss, grad = _cross_entropy([1, 2], [-1, -1], ignore_index=-1, normalize=True)
    assert loss.tolist() == [0, 0] and grad.tolist() == [0, 0]
    loss, grad = _cross_entropy([1, 2, 3, 4], [1, -1, 0, -1], ignore_index=-1, normalize=True)
    close(loss, [0.15663083, 0, 1.5242937, 0])
    close(grad, [-0.13447072, 0, 0.47628707, 0])


def test_a3_soft_labels_are_not_truncated_by_ignore_index():
    """Paddle pull 14511. Paddle drops 0.3 and 0.9: loss [0, 0, 0, 0.126928]."""
    x, label = [2, 2, 2, 2], [0, 0.3, 0.9, 1]
    loss, grad = _cross_entropy(x, label, ignore_index=0)
    close(loss, [0, 1.5269280, 0.3269280, 0.1269280])
    close(grad, [0, 0.5807971, -0.0192029, -0.1192029], rtol=1e-5)
    loss, _ = _cross_entropy(x, label, ignore_index=0, normalize=True)
    close(loss, [0, 0.5089760, 0.1089760, 0.0423093], rtol=1e-5)
    for ignored, near in ((-1, -1.5), (1, 1.5)):
        loss, _ = _cross_entropy([2, 2], [ignored, near], ignore_index=ignored)
        assert loss[0] == 0 and loss[1] != 0


def test_a4_pos_weight_weighs_the_positive_term():
    """Paddle pull 65859. Paddle 2.6.2: loss 14.913009, gradient -0.999999."""
    loss, grad = _bce([-14.913008], [1], pos_weight=array([3.0]), reduction="none")
    close(loss, [44.73902])
    close(grad, [-2.999999])
    half = [0.5, 0.5]
    loss, grad = _bce(
        half, half, weight=array(half), pos_weight=array([1.0, 2.0]), reduction="none"
    )
    close(loss, [0.3620385, 0.4805577])
    close(grad, [0.0612297, -0.0331555], rtol=1e-5)  # 2.6.2: second one +0.2168


def test_a4_gradient_of_pos_weight_form_is_that_of_its_loss():
    """Paddle's TestSigmoidCrossEntropyWithLogitsOp4 passed with an error of 7.8e-4 at 5e-3."""
    random = np.random.RandomState(1)
    shape = (64, 20)
    uniform = random.uniform(0, 1, shape)
    x = np.log(uniform / (1 - uniform))
    label, weight = random.uniform(0, 1, shape), random.uniform(0, 1, shape)
    for form in ("log1p", "softplus"):
        _, grad = _cross_entropy(
            x, label, dtype=np.float64, pos_weight=weight, pos_weight_form=form
        )

        def loss(row, form=form):
            return [Reference(row, label[:1], weight[:1], form=form).forward()]

        (numeric,) = central_difference(loss, x[:1], [[np.ones((1, 20))]])
        close(grad[:1], numeric, rtol=1e-6, atol=1e-9)
        close(grad, Reference(x, label, weight, form=form).slope(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("form", [None, "log1p", "softplus"])
def test_a5_infinite_logits(form):
    """pytorch 135359, TF 75256. Paddle: NaN for most of these."""
    inf = np.inf
    x, label = [inf, inf, -inf, -inf, inf, -inf], [1, 0, 0, 1, 0.5, 0.5]
    more = {} if form is None else {"pos_weight": [1] * 6, "pos_weight_form": form}
    loss, grad = _cross_entropy(x, label, **more)
    assert loss.tolist() == [0, inf, 0, inf, inf, inf]
    assert grad.tolist() == [0, 1, 0, -1, 0.5, -0.5]
    loss, grad = _cross_entropy(
        [np.nan], [1], **({} if form is None else {**more, "pos_weight": [1]})
    )
    assert np.isnan(loss).all() and np.isnan(grad).all()


def test_a5_bce_with_infinite_logits():
    loss, grad = _bce([np.inf, -np.inf], [1, 0], reduction="sum")
    assert loss.item() == 0 and grad.tolist() == [0, 0]


def test_a6_log1p_keeps_the_loss_of_confident_answers():
    """pytorch 195677. Paddle: loss 0 from log(1 + e); PyTorch: gradient 0."""
    loss, grad = _cross_entropy([17], [1])
    close(loss, [4.139938e-08])
    close(grad, [-4.139938e-08])
    loss, grad = _cross_entropy([40], [1], dtype=np.float64)
    close(loss, [4.248354255291589e-18], rtol=1e-12)
    close(grad, [-4.248354255291589e-18], rtol=1e-12)


def test_a6_no_overflow():
    """pytorch 13773: NaN there."""
    loss, grad = _cross_entropy([1000, 1000, -1000, -1000], [0, 1, 0, 1])
    assert loss.tolist() == [1000, 0, 0, 1000] and grad.tolist() == [1, 0, 0, -1]
    loss, _ = _bce([0, -120], [0, 1], pos_weight=array([1.0, 1.0]), reduction="none")
    close(loss, [0.6931472, 120])


def test_g4_empty_tensors():
    """Paddle pull 73882: (0, 3): none -> (0, 3), sum -> 0, mean -> NaN, as in PyTorch."""
    empty = np.zeros((0, 3), F32)
    assert _bce(empty, empty, reduction="none")[0].shape == (0, 3)
    assert _bce(empty, empty, reduction="sum")[0].item() == 0
    assert np.isnan(_bce(empty, empty, reduction="mean")[0].item())
    assert _cross_entropy(empty, empty, normalize=True)[0].shape == (0, 3)


@pytest.mark.parametrize("kind", ["int64", "int32", "uint8", "bool"])
def test_g5_integer_labels(kind):
    """PaddleNLP issue 5785. Paddle: kernel for int64 not registered."""
    from paddle_ops import binary_cross_entropy_with_logits, sigmoid_cross_entropy_with_logits

    x, label = array([0.5, -1.5, 2.0]), array([1, 0, 1])
    expected, _ = _cross_entropy(x, label)
    got = sigmoid_cross_entropy_with_logits(tensor(x), tensor(label.astype(kind)))
    close(got.numpy(), expected)
    got = binary_cross_entropy_with_logits(tensor(x), tensor(label.astype(kind)), reduction="none")
    close(got.numpy(), expected)


def test_g9_label_of_another_shape_is_refused():
    """pytorch 1939: (64, 1) against (64,) broadcasts to (64, 64), a wrong loss in silence."""
    for x, label in (((64, 1), (64,)), ((4, 3), (3, 4)), ((4, 3), (4, 1))):
        for function in (_bce, _cross_entropy):
            with pytest.raises(ValueError, match="label"):
                function(np.zeros(x), np.zeros(label))


@pytest.mark.parametrize("dtype", [np.float16, np.uint16])
def test_g13_half_logits_compute_in_float32(dtype):
    """YOLOX 336: log1p(exp(-12)) is below fp16's spacing at 1 and would be 0."""
    from paddle_ops import sigmoid_cross_entropy_with_logits

    x, label = rounded_to([12.0, -12.0, 0.25], dtype), rounded_to([1.0, 0.0, 1.0], dtype)
    loss = sigmoid_cross_entropy_with_logits(tensor(x), tensor(label)).numpy()
    exact = np.log1p(np.exp([-12.0, -12.0, -0.25]))
    assert loss.dtype == dtype
    assert np.array_equal(loss, rounded_to(exact, dtype))


def test_h14_double_gradient_of_the_cross_entropy():
    """Paddle issue 40800: double gradients of custom operators. sigmoid' at 0 is 1/4."""
    from paddle_ops import sigmoid_cross_entropy_with_logits

    x = tensor(array([0.0, 2.0, -1.0], dtype=np.float64), stop_gradient=False)
    loss = sigmoid_cross_entropy_with_logits(x, tensor(array([1.0, 0.0, 0.5], dtype=np.float64)))
    (first,) = paddle.grad(loss.sum(), x, create_graph=True)
    (second,) = paddle.grad(first.sum(), x)
    sigmoid = 1 / (1 + np.exp(-x.numpy()))
    close(second.numpy(), sigmoid * (1 - sigmoid), rtol=1e-12)

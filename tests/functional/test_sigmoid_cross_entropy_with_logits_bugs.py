"""Public bug reports about this operator, each with the right numbers.

Numbers A1 to A6 are those of the project's list of reports; the links are to the public threads.
"""

import numpy as np
import paddle
import pytest
import tolerances

from paddle_ops import sigmoid_cross_entropy_with_logits
from paddle_ops.nn import BCEWithLogitsLoss


def loss_and_grad(x, label, pos_weight=None, dtype="float32", **attrs):
    """Loss and d loss / d x as NumPy arrays."""
    x = paddle.to_tensor(np.asarray(x, dtype), stop_gradient=False)
    label = paddle.to_tensor(np.asarray(label, dtype))
    if pos_weight is not None:
        pos_weight = paddle.to_tensor(np.asarray(pos_weight, dtype))
    loss = sigmoid_cross_entropy_with_logits(x, label, pos_weight, **attrs)
    loss.sum().backward()
    return loss.numpy(), x.grad.numpy()


def published(got, expected):
    np.testing.assert_allclose(got, expected, rtol=tolerances.PUBLISHED, atol=0)


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a1_gradient_at_zero(zero, dtype):
    """github.com/PaddlePaddle/Paddle/pull/64253: off by exactly -1 in Paddle 3.3.1."""
    loss, grad = loss_and_grad([zero] * 4, [0, 1, 0.5, 0.25], dtype=dtype)
    np.testing.assert_array_equal(grad, [0.5, -0.5, 0.0, 0.25])
    np.testing.assert_array_equal(loss, np.asarray(np.log(2), dtype))


@pytest.mark.parametrize("pos_weight", [None, 1.0])
def test_a1_first_step_from_zero_weights(pos_weight):
    """A linear model that starts at zero must move the right way, whichever branch it takes."""
    w = paddle.zeros([1, 1])
    w.stop_gradient = False
    weight = None if pos_weight is None else paddle.to_tensor([pos_weight])
    logit = paddle.matmul(paddle.ones([2, 1]), w)
    BCEWithLogitsLoss(pos_weight=weight)(logit, paddle.zeros([2, 1])).backward()
    assert w.grad.item() == 0.5


def test_a2_normalize_with_every_label_ignored():
    """github.com/PaddlePaddle/Paddle/issues/70896: 0 / 0 on the CPU."""
    loss, grad = loss_and_grad([1, 2], [-1, -1], ignore_index=-1, normalize=True)
    np.testing.assert_array_equal(loss, [0, 0])
    np.testing.assert_array_equal(grad, [0, 0])


def test_a2_normalize_with_some_labels_ignored():
    loss, grad = loss_and_grad([1, 2, 3, 4], [1, -1, 0, -1], ignore_index=-1, normalize=True)
    published(loss, [0.15663083, 0, 1.5242937, 0])
    published(grad, [-0.13447072, 0, 0.47628707, 0])


def test_a3_soft_labels_are_not_truncated():
    """github.com/PaddlePaddle/Paddle/issues/70896: labels 0.3 and 0.9 were taken for 0."""
    loss, grad = loss_and_grad([2, 2, 2, 2], [0, 0.3, 0.9, 1], ignore_index=0)
    published(loss, [0, 1.5269280, 0.3269280, 0.1269280])
    published(grad, [0, 0.5807971, -0.0192029, -0.1192029])


@pytest.mark.parametrize("ignore_index, label", [(-1, -1.5), (1, 1.5), (0, -0.3)])
def test_a3_labels_next_to_ignore_index(ignore_index, label):
    loss, grad = loss_and_grad([2], [label], ignore_index=ignore_index)
    assert loss[0] != 0
    assert grad[0] != 0


def test_a3_normalize_divides_by_the_kept_ones():
    loss, _ = loss_and_grad([2, 2, 2, 2], [0, 0.3, 0.9, 1], ignore_index=0, normalize=True)
    published(loss, [0, 0.5089760, 0.1089760, 0.0423093])


def test_a4_pos_weight_multiplies_the_positive_term():
    """github.com/PaddlePaddle/Paddle/pull/65859: 14.913009 and -0.999999 in Paddle 2.6.2."""
    loss, grad = loss_and_grad([-14.913008], [1], [3], pos_weight_form="softplus")
    published(loss, [44.73902])
    published(grad, [-2.999999])


def test_a4_element_weights():
    weight = 1 + (np.array([1, 2]) - 1) * 0.5
    loss, grad = loss_and_grad([0.5, 0.5], [0.5, 0.5], weight, pos_weight_form="softplus")
    published(0.5 * loss, [0.3620385, 0.4805577])
    published(0.5 * grad, [0.0612297, -0.0331555])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a5_infinite_logits(dtype):
    """github.com/pytorch/pytorch/issues/135359: the limit, not 0 * Inf."""
    inf = np.inf
    loss, grad = loss_and_grad([inf, inf, -inf, -inf], [1, 0, 0, 1], dtype=dtype)
    np.testing.assert_array_equal(loss, [0, inf, 0, inf])
    np.testing.assert_array_equal(grad, [0, 1, 0, -1])


@pytest.mark.parametrize("form", ["none", "log1p", "softplus"])
def test_a6_tiny_losses_keep_their_digits(form):
    """github.com/pytorch/pytorch/issues/195677: log(1 + e) is 0 here, and 1 - sigmoid too."""
    attrs = {} if form == "none" else {"pos_weight": [1.0], "pos_weight_form": form}
    loss, grad = loss_and_grad([17], [1], **attrs)
    published(loss, [4.139938e-08])
    published(grad, [-4.139938e-08])
    loss, grad = loss_and_grad([-17], [0], **attrs)
    published(loss, [4.139938e-08])
    published(grad, [4.139938e-08])
    loss, grad = loss_and_grad([40], [1], dtype="float64", **attrs)
    published(loss, [4.248354255291589e-18])
    published(grad, [-4.248354255291589e-18])


def test_a6_no_overflow():
    loss, grad = loss_and_grad([1000, 1000, -1000, -1000], [1, 0, 0, 1])
    np.testing.assert_array_equal(loss, [0, 1000, 0, 1000])
    np.testing.assert_array_equal(grad, [0, 1, 0, -1])


@pytest.mark.parametrize("form", ["log1p", "softplus"])
def test_a6_weights_of_one_do_not_overflow(form):
    """github.com/pytorch/pytorch/issues/13773"""
    loss, _ = loss_and_grad([0, -120], [0, 1], [1, 1], pos_weight_form=form)
    published(loss, [0.6931472, 120])

"""The layer BCEWithLogitsLoss: equal to the function, stateless like Paddle's, trains."""

import numpy as np
import paddle
import pytest

from paddle_ops import binary_cross_entropy_with_logits
from paddle_ops.nn import BCEWithLogitsLoss


def inputs():
    random = np.random.RandomState(0)
    logit = paddle.to_tensor(random.normal(size=(4, 3)).astype(np.float32), stop_gradient=False)
    return logit, paddle.to_tensor(random.randint(0, 2, (4, 3)))


WEIGHTS = {
    "plain": {},
    "weight": {"weight": [[1.0], [2.0], [0.5], [0.0]]},
    "pos_weight": {"pos_weight": [1.0, 2.0, 3.0]},
    "both": {"weight": [0.5, 1.0, 2.0], "pos_weight": [1.0, 2.0, 3.0]},
}


def tensors(weights):
    return {name: paddle.to_tensor(value) for name, value in WEIGHTS[weights].items()}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_equals_the_function(weights, reduction):
    logit, label = inputs()
    arguments = tensors(weights)
    expected = binary_cross_entropy_with_logits(logit, label, reduction=reduction, **arguments)
    loss = BCEWithLogitsLoss(reduction=reduction, **arguments)(logit, label)
    np.testing.assert_array_equal(loss.numpy(), expected.numpy())


def test_default_is_the_mean():
    logit, label = inputs()
    expected = binary_cross_entropy_with_logits(logit, label, reduction="mean")
    np.testing.assert_array_equal(BCEWithLogitsLoss()(logit, label).numpy(), expected.numpy())


@pytest.mark.parametrize("weights", WEIGHTS)
def test_has_neither_state_nor_parameters(weights):
    """State dicts are interchangeable with those of paddle.nn.BCEWithLogitsLoss."""
    loss = BCEWithLogitsLoss(**tensors(weights))
    assert loss.parameters() == []
    assert loss.state_dict() == {}
    loss.set_state_dict(paddle.nn.BCEWithLogitsLoss(**tensors(weights)).state_dict())


def test_weights_follow_the_layer():
    loss = BCEWithLogitsLoss(**tensors("both"))
    loss.to(dtype="float64")
    assert loss.pos_weight.dtype == paddle.float64
    assert loss.weight.dtype == paddle.float64


def test_weights_in_the_position_of_paddle():
    weight, pos_weight = paddle.to_tensor([0.5]), paddle.to_tensor([2.0])
    ours, theirs = (
        layer(weight, "sum", pos_weight)
        for layer in (BCEWithLogitsLoss, paddle.nn.BCEWithLogitsLoss)
    )
    assert ours.weight.item() == theirs.weight.item() == 0.5
    assert ours.pos_weight.item() == theirs.pos_weight.item() == 2.0
    assert ours.reduction == theirs.reduction == "sum"


def test_a_parameter_as_pos_weight_is_trained():
    weight = paddle.create_parameter([3], "float32")
    loss = BCEWithLogitsLoss(pos_weight=weight)
    assert [p is weight for p in loss.parameters()] == [True]
    loss(*inputs()).backward()
    assert weight.grad is not None


@pytest.mark.parametrize("full_graph", [True, False], ids=["ast", "sot"])
def test_to_static(full_graph):
    logit, label = inputs()
    loss = BCEWithLogitsLoss(**tensors("both"))
    expected = loss(logit, label).numpy()
    static = paddle.jit.to_static(loss, full_graph=full_graph)
    np.testing.assert_allclose(static(logit, label).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_static_program(weights):
    logit, label = inputs()
    arguments = tensors(weights)
    expected = BCEWithLogitsLoss(**arguments)(logit, label).numpy()
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program()) as _:
        main = paddle.static.default_main_program()
        data = {"logit": logit.numpy(), "label": label.numpy()}
        data.update({n: np.asarray(v, np.float32) for n, v in WEIGHTS[weights].items()})
        variables = {n: paddle.static.data(n, a.shape, str(a.dtype)) for n, a in data.items()}
        layer = BCEWithLogitsLoss(**{n: variables[n] for n in WEIGHTS[weights]})
        out = layer(variables["logit"], variables["label"])
        (got,) = paddle.static.Executor(paddle.CPUPlace()).run(main, feed=data, fetch_list=[out])
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_training_lowers_the_loss():
    paddle.seed(0)
    net, loss = paddle.nn.Linear(2, 1), BCEWithLogitsLoss(pos_weight=paddle.to_tensor([2.0]))
    x = paddle.to_tensor(np.random.RandomState(1).normal(size=(64, 2)).astype(np.float32))
    y = (x[:, :1] > x[:, 1:]).astype("int64")
    optimizer = paddle.optimizer.SGD(1.0, parameters=net.parameters())
    losses = []
    for _ in range(20):
        value = loss(net(x), y)
        value.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(value.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    "arguments, error, argument",
    [
        ({"reduction": "avg"}, ValueError, "reduction"),
        ({"weight": 2.0}, TypeError, "weight"),
        ({"pos_weight": [1.0]}, TypeError, "pos_weight"),
    ],
)
def test_bad_arguments(arguments, error, argument):
    with pytest.raises(error, match=f"BCEWithLogitsLoss: {argument}: expected .*, got "):
        BCEWithLogitsLoss(**arguments)


def test_description():
    assert repr(BCEWithLogitsLoss(reduction="sum")) == "BCEWithLogitsLoss(reduction=sum)"

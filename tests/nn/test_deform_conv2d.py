"""paddle_ops.nn.DeformConv2D: the state of Paddle's layer, and its training step."""

import numpy as np
import paddle
import pytest
from paddle.vision.ops import DeformConv2D as PaddleDeformConv2D


def layers(*args, **kwargs):
    """(ours, Paddle's)."""
    from paddle_ops.nn import DeformConv2D

    return DeformConv2D(*args, **kwargs), PaddleDeformConv2D(*args, **kwargs)


def inputs(channels=4, taps=9, groups=1, size=(6, 7), out=(6, 7)):
    random = np.random.RandomState(0)
    shapes = ((2, channels, *size), (2, 2 * groups * taps, *out), (2, groups * taps, *out))
    return [paddle.to_tensor(random.uniform(-1, 1, s).astype("float32")) for s in shapes]


CONFIGURATIONS = [
    ((4, 6, 3), dict(padding=1), 9, 1),
    ((4, 6, [3, 3]), dict(padding=1, groups=2), 9, 1),
    ((4, 6, (3, 1)), dict(padding=[1, 0], deformable_groups=2), 3, 2),
    ((4, 2, 3), dict(padding=2, dilation=2, bias_attr=False), 9, 1),
]


@pytest.mark.parametrize("args, kwargs, taps, groups", CONFIGURATIONS)
def test_state_dict_fits_both_ways(args, kwargs, taps, groups):
    ours, theirs = layers(*args, **kwargs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        assert ours.state_dict()[name].shape == value.shape
        assert ours.state_dict()[name].dtype == value.dtype
    x, offset, mask = inputs(taps=taps, groups=groups)
    for target, source in ((ours, theirs), (theirs, ours)):
        state = {n: paddle.randn(v.shape) for n, v in source.state_dict().items()}
        source.set_state_dict(state)
        missing, unexpected = target.set_state_dict(source.state_dict())
        assert (missing, unexpected) == ([], [])
        for m in (mask, None):
            expected = theirs(x, offset, m).numpy()
            np.testing.assert_allclose(ours(x, offset, m).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_saved_weights_of_one_load_into_the_other(tmp_path):
    ours, theirs = layers(4, 6, 3, padding=1)
    paddle.save(theirs.state_dict(), str(tmp_path / "weights.pdparams"))
    ours.set_state_dict(paddle.load(str(tmp_path / "weights.pdparams")))
    np.testing.assert_array_equal(ours.weight.numpy(), theirs.weight.numpy())


def test_initial_values_are_distributed_like_paddles():
    """Normal, with the standard deviation that Paddle's layer uses; the bias is zero."""
    paddle.seed(5)
    ours, theirs = layers(64, 128, 3)
    for layer in (ours, theirs):
        values = layer.weight.numpy()
        np.testing.assert_allclose(values.std(), np.sqrt(2 / (9 * 64)), rtol=0.02)
        assert abs(values.mean()) < 1e-3
        assert not layer.bias.numpy().any()


def test_parameter_attributes():
    from paddle_ops.nn import DeformConv2D

    constant = paddle.nn.initializer.Constant(0.5)
    layer = DeformConv2D(
        2, 3, 1, weight_attr=paddle.ParamAttr(initializer=constant, trainable=False),
        bias_attr=paddle.ParamAttr(initializer=constant),
    )  # fmt: skip
    assert (layer.weight.numpy() == 0.5).all() and layer.weight.stop_gradient
    assert (layer.bias.numpy() == 0.5).all() and not layer.bias.stop_gradient
    assert DeformConv2D(2, 3, 1, bias_attr=False).bias is None


def test_repr_shows_the_configuration():
    ours, _ = layers(4, 6, [3, 1], stride=2, padding=[1, 0], deformable_groups=2)
    text = repr(ours)
    for part in ("DeformConv2D(4, 6", "kernel_size=[3, 1]", "stride=2", "padding=[1, 0]"):
        assert part in text, text
    assert "deformable_groups=2" in text


def test_training_steps_reduce_the_loss_and_follow_paddles():
    ours, theirs = layers(4, 6, 3, padding=1)
    ours.set_state_dict(theirs.state_dict())
    losses = []
    for layer in (ours, theirs):
        x, offset, mask = inputs()
        offset.stop_gradient = mask.stop_gradient = False
        optimizer = paddle.optimizer.Momentum(0.05, parameters=layer.parameters())
        losses.append([])
        for _ in range(5):
            loss = ((layer(x, offset, mask) - 1) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses[-1].append(loss.item())
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[0][-1] < losses[0][0]


def test_four_sided_padding_and_boundary_rule():
    from paddle_ops.nn import DeformConv2D

    layer = DeformConv2D(4, 6, 3, padding=[1, 0, 2, 1], boundary_grad="torchvision")
    x, _, _ = inputs()
    slopes = {}
    for rule in ("paddle", "torchvision"):
        layer = DeformConv2D(4, 6, 3, padding=[1, 0, 2, 1], boundary_grad=rule)
        layer.weight.set_value(paddle.ones([6, 4, 3, 3]))
        offset = paddle.zeros([2, 18, 5, 8])
        offset.stop_gradient = False
        out = layer(x, offset)
        assert out.shape == [2, 6, 5, 8]
        out.sum().backward()
        slopes[rule] = offset.grad.numpy()
    assert (slopes["paddle"] != slopes["torchvision"]).any()
    assert not slopes["paddle"][:, 0, 0].any()


@pytest.mark.parametrize(
    "args, kwargs, argument",
    [
        ((4, 6, 3), dict(groups=3), "groups"),
        ((4, 6, 3), dict(groups=0), "groups"),
        ((4, 6, 3), dict(deformable_groups=3), "deformable_groups"),
        ((4, 6, 0), {}, "kernel_size"),
        ((4, 6, [3, 3, 3]), {}, "kernel_size"),
        ((0, 6, 3), {}, "in_channels"),
        ((4, -1, 3), {}, "out_channels"),
    ],
)
def test_bad_configuration(args, kwargs, argument):
    from paddle_ops.nn import DeformConv2D

    with pytest.raises(ValueError, match=argument):
        DeformConv2D(*args, **kwargs)

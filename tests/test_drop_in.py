"""paddle_ops.patch_paddle: who follows, what stays the same, and the way back."""

import functools
import inspect

import numpy as np
import paddle
import pytest
import tolerances
from modes import MODES, evaluate
from numeric import assert_elements
from paddle.nn import BCEWithLogitsLoss
from paddle.nn.functional import binary_cross_entropy_with_logits
from paddle.vision.ops import DeformConv2D, deform_conv2d

import paddle_ops
from paddle_ops import functional

OWN_CODE = {f: f.__code__ for f in (deform_conv2d, binary_cross_entropy_with_logits)}


def patched():
    """Whether both of Paddle's functions have other code than they came with."""
    changed = {f.__code__ is not code for f, code in OWN_CODE.items()}
    assert len(changed) == 1
    return changed.pop()


@pytest.fixture(autouse=True)
def unpatched():
    """Each test starts from Paddle's own functions and leaves them."""
    assert not patched()
    yield
    paddle_ops.unpatch_paddle()
    assert not patched()


@pytest.fixture
def calls(monkeypatch):
    """The names of this package's functions that were called."""
    seen = []
    for name in ("deform_conv2d", "binary_cross_entropy_with_logits"):
        own = getattr(functional, name)

        def recorded(*args, own=own, name=name, **kwargs):
            seen.append(name)
            return own(*args, **kwargs)

        monkeypatch.setattr(functional, name, recorded)
    return seen


def arrays(seed=0, channels=4, groups=1):
    """x, offset, weight, bias, mask of a 3 x 2 kernel that leaves 5 x 6 pixels as they are."""
    random = np.random.RandomState(seed)
    shapes = [
        (2, channels, 5, 7),
        (2, 12 * groups, 5, 6),
        (6, 4, 3, 2),
        (6,),
        (2, 6 * groups, 5, 6),
    ]
    return [random.uniform(-1, 1, shape) for shape in shapes]


class Doubled(DeformConv2D):
    def forward(self, x, offset, mask=None):
        return 2 * super().forward(x, offset, mask)


class Smoothed(BCEWithLogitsLoss):
    def forward(self, logit, label):
        return super().forward(logit, 0.9 * label + 0.05)


def deformable_callers():
    """Ways to hold Paddle's function, each as function(x, offset, weight, bias, mask)."""
    keep = [deform_conv2d]
    bound = functools.partial(deform_conv2d, padding=[1, 0])
    layer = Doubled(4, 6, [3, 2], padding=[1, 0])
    plain = DeformConv2D(4, 6, [3, 2], padding=[1, 0]).forward

    def closure(x, offset, weight, bias, mask, held=deform_conv2d):
        return held(x, offset, weight, bias, padding=[1, 0], mask=mask)

    return {
        "closure": closure,
        "list": lambda x, o, w, b, m: keep[0](x, o, w, b, padding=[1, 0], mask=m),
        "partial": lambda x, o, w, b, m: bound(x, o, w, b, mask=m),
        "subclass": lambda x, o, w, b, m: layer(x, o, m),
        "bound method": lambda x, o, w, b, m: plain(x, o, m),
        "path": lambda x, o, w, b, m: paddle.vision.ops.deform_conv2d(x, o, w, padding=[1, 0]),
    }


def test_whoever_holds_the_convolution_follows(calls):
    tensors = [paddle.to_tensor(a.astype("float32")) for a in arrays()]
    for name, caller in deformable_callers().items():
        expected = caller(*tensors).numpy()
        assert calls == []
        with paddle_ops.patch_paddle():
            got = caller(*tensors).numpy()
        assert calls == ["deform_conv2d"], name
        assert_elements(got, expected, tolerances.PEER, 1.0, name)
        calls.clear()


def test_whoever_holds_the_cross_entropy_follows(calls):
    x = paddle.to_tensor([[0.5, -2.0]])
    label = paddle.to_tensor([[1.0, 0.0]])
    keep = {"held": binary_cross_entropy_with_logits}
    callers = {
        "name": binary_cross_entropy_with_logits,
        "dictionary": lambda x, y: keep["held"](x, y),
        "path": lambda x, y: paddle.nn.functional.binary_cross_entropy_with_logits(x, y),
        "layer": BCEWithLogitsLoss(reduction="sum"),
        "subclass": Smoothed(),
        "distribution": lambda x, y: paddle.distribution.Bernoulli(
            paddle.nn.functional.sigmoid(x)
        ).log_prob(y),
    }
    for name, caller in callers.items():
        expected = caller(x, label).numpy()
        assert calls == []
        with paddle_ops.patch_paddle():
            got = caller(x, label).numpy()
        assert calls == ["binary_cross_entropy_with_logits"], name
        assert_elements(got, expected, tolerances.PEER, 1.0, name)
        calls.clear()


CONVOLUTIONS = {
    "padding": ((4, 1), dict(padding=[1, 0])),
    "positional": ((4, 1), (1, [1, 0], 1, 1, 1)),
    "groups": ((8, 1), dict(padding=[1, 0], groups=2)),
    "deformable_groups": ((4, 2), dict(padding=[1, 0], deformable_groups=2)),
    "name": ((4, 1), dict(padding=[1, 0], name="a name")),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_arguments_of_the_convolution_mean_the_same(name, mode):
    """Output and every gradient are Paddle's, in each graph mode, however it is called."""
    (channels, groups), arguments = CONVOLUTIONS[name]

    def function(x, offset, weight, bias, mask):
        if isinstance(arguments, tuple):
            return deform_conv2d(x, offset, weight, bias, *arguments, mask, "a name")
        return deform_conv2d(x, offset, weight, bias, mask=mask, **arguments)

    same_in_both(function, arrays(1, channels, groups), mode)


def test_the_other_numbers_of_the_convolution_mean_the_same():
    """Strides and dilations, which change the size of the output, and defaults."""
    random = np.random.RandomState(2)
    for size, arguments in (
        ((2, 4), dict(stride=2, dilation=2, padding=1)),
        ((3, 2), dict(stride=(1, 3))),
        ((1, 6), dict(dilation=[2, 1])),
        ((3, 6), {}),
    ):
        x, _, weight, bias, _ = arrays(3)
        offset = random.uniform(-1, 1, (2, 12, *size))
        mask = random.uniform(0, 1, (2, 6, *size))

        def function(x, offset, weight, bias, mask, arguments=arguments):
            return deform_conv2d(x, offset, weight, bias, mask=mask, **arguments)

        same_in_both(function, [x, offset, weight, bias, mask], "dygraph")


LOSSES = {
    "defaults": {},
    "weight": dict(weight=True),
    "pos_weight": dict(pos_weight=True),
    "none": dict(reduction="none", weight=True, pos_weight=True),
    "sum": dict(reduction="sum", name="a name"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LOSSES)
def test_arguments_of_the_cross_entropy_mean_the_same(name, mode):
    if "pos_weight" in LOSSES[name] and paddle.__version__.startswith("2."):
        pytest.skip("Paddle 2.6 means something else by pos_weight; docs/drop_in.md says so")
    random = np.random.RandomState(0)
    data = [random.uniform(-3, 3, (4, 3)), random.uniform(0, 1, (4, 3))]
    given = {n: v for n, v in LOSSES[name].items() if n not in ("weight", "pos_weight")}
    extra = [n for n in ("weight", "pos_weight") if n in LOSSES[name]]
    data += [random.uniform(0.5, 2, (3,)) for _ in extra]

    def function(logit, label, *rest):
        return binary_cross_entropy_with_logits(logit, label, **dict(zip(extra, rest)), **given)

    same_in_both(function, data, mode, wanted=[0])


def same_in_both(function, data, mode, wanted=None):
    wanted = list(range(len(data))) if wanted is None else wanted
    (expected,), right = evaluate(mode, function, data, wanted)
    with paddle_ops.patch_paddle():
        (got,), grads = evaluate(mode, function, data, wanted)
    assert_elements(got, expected, tolerances.FP64_VALUE, 1.0, "out")
    for i in wanted:
        assert_elements(grads[i], right[i], tolerances.FP64_VALUE, 1.0, f"gradient {i}")


def test_it_repairs_what_it_replaces():
    """The crash of a constant mask and the gradient at 0, in classes imported before."""
    layer, loss = DeformConv2D(2, 1, 1), BCEWithLogitsLoss()
    with paddle_ops.patch_paddle():
        y = layer(paddle.ones([1, 2, 3, 3]), paddle.zeros([1, 2, 3, 3]), paddle.ones([1, 1, 3, 3]))
        loss(0 * y, paddle.zeros_like(y)).backward()
        x = paddle.zeros([1])
        x.stop_gradient = False
        loss(x, paddle.ones([1])).backward()
    assert layer.weight.grad.shape == [1, 2, 1, 1]
    assert x.grad.tolist() == [-0.5]


def test_layers_stay_what_they_are():
    layer = DeformConv2D(4, 6, [3, 2], padding=[1, 0])
    before = {name: value.numpy() for name, value in layer.state_dict().items()}
    signatures = {f: inspect.signature(f) for f in OWN_CODE}
    with paddle_ops.patch_paddle():
        assert {f: inspect.signature(f) for f in OWN_CODE} == signatures
        fresh = DeformConv2D(4, 6, [3, 2], padding=[1, 0])
        assert type(fresh) is type(layer)
        assert fresh.set_state_dict(layer.state_dict()) == ([], [])
    assert list(fresh.state_dict()) == list(before) == ["weight", "bias"]
    for name, value in fresh.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])


def test_a_program_traced_before_keeps_its_operators(calls):
    layer = paddle.jit.to_static(DeformConv2D(4, 6, [3, 2], padding=[1, 0]), full_graph=True)
    tensors = [paddle.to_tensor(a.astype("float32"), stop_gradient=False) for a in arrays()]
    x, offset, _, _, mask = tensors
    layer(x, offset, mask)
    with paddle_ops.patch_paddle():
        layer(x, offset, mask)
        assert calls == []
        layer(x, offset)  # another input, and so another program
        assert calls == ["deform_conv2d"]


def test_once_for_good_and_back():
    paddle_ops.patch_paddle()
    paddle_ops.patch_paddle()
    assert patched()
    paddle_ops.unpatch_paddle()
    assert not patched()
    paddle_ops.unpatch_paddle()
    assert not patched()


def test_blocks_nest():
    with paddle_ops.patch_paddle():
        with paddle_ops.patch_paddle():
            assert patched()
        assert patched()
    assert not patched()


def test_a_block_leaves_an_earlier_call_alone():
    paddle_ops.patch_paddle()
    with paddle_ops.patch_paddle():
        pass
    assert patched()


def test_a_block_ends_with_an_exception_too():
    with pytest.raises(ZeroDivisionError), paddle_ops.patch_paddle():
        raise ZeroDivisionError
    assert not patched()


def test_unknown_arguments_are_refused(monkeypatch):
    def newer(logit, label, weight=None, reduction="mean", pos_weight=None, extra=0, name=None):
        pass

    monkeypatch.setattr(paddle.nn.functional, "binary_cross_entropy_with_logits", newer)
    with pytest.raises(RuntimeError, match="newer: expected arguments .*, got .*'extra'"):
        paddle_ops.patch_paddle()
    assert not patched()

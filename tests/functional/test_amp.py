"""paddle.amp: which inputs are cast, in which types gradients come back, and GradScaler.

On the CPU auto_cast turns itself off in dynamic graphs, so `casting` sets what it sets on a GPU.
In the programs of Paddle 3 it is on everywhere.
"""

import contextlib
import sys
from unittest import mock

import numpy as np
import paddle
import pytest
from deform_cases import NAMES, Case, cotangent, expected, function_of
from modes import static_guard, tensor
from numeric import as_float64, assert_close, rounded_to
from paddle.base import core
from paddle.base.framework import _dygraph_tracer

from paddle_ops import binary_cross_entropy_with_logits as bce
from paddle_ops import deform_conv2d, sigmoid_cross_entropy_with_logits
from paddle_ops.nn import DeformConv2D

CASE = Case((2, 4, 5, 6), (6, 3, 2), (1, 2), (1, 0, 1, 1), groups=2, deformable_groups=2)
DTYPES = {"float16": np.float16, "bfloat16": np.uint16}
needs_pir = pytest.mark.skipif(
    not hasattr(core, "_get_amp_attrs"),
    reason="Paddle 2.6 rewrites complete programs, it has no auto_cast while one is built",
)
each_level = pytest.mark.parametrize("level", ["OD", "O1", "O2"])
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


@contextlib.contextmanager
def casting(level, dtype, black=()):
    """auto_cast as it is on a GPU."""
    tracer = _dygraph_tracer()
    with paddle.amp.auto_cast(level=level, dtype=dtype, custom_black_list=set(black)):
        assert tracer._amp_level == core.AmpLevel.O0  # if not, the lines below are not needed
        tracer._amp_level, tracer._amp_dtype = getattr(core.AmpLevel, level), dtype
        yield


def name_of(value):
    return str(value.dtype).split(".")[-1].lower()


def run_deform(data, guard):
    """Output and gradients under a guard; the backward runs outside, as in training code."""
    tensors = [tensor(data[name], stop_gradient=False) for name in NAMES]
    with guard:
        out = function_of(CASE.attrs())(*tensors)
    grad_out = paddle.to_tensor(cotangent(data, CASE.attrs())).astype(out.dtype)
    out.backward(grad_out)
    return out, tensors, grad_out


def by_paddle(array, dtype):
    """An array in a half type as Paddle casts it: 2.6 cuts on the CPU where 3 rounds."""
    return paddle.to_tensor(array).astype(dtype).numpy()


def halved(data, dtype):
    """x, weight and bias in a half type; offset and mask as they are."""
    narrow = ("x", "weight", "bias")
    return {n: by_paddle(a, dtype) if n in narrow else a for n, a in data.items()}


@each_level
@each_dtype
def test_deform_conv2d_casts_all_but_offset_and_mask(level, dtype):
    data = CASE.arrays(np.float32)
    out, tensors, grad_out = run_deform(data, casting(level, dtype))
    right, right_out = expected(halved(data, dtype), CASE.attrs(), grad_out.numpy())
    assert name_of(out) == dtype
    assert_close(out.numpy(), right_out, "out")
    for name, given in zip(NAMES, tensors):
        assert given.grad.dtype == given.dtype == paddle.float32
        got = given.grad.numpy()
        if name in ("x", "weight", "bias"):  # they were half types on the way
            half = rounded_to(as_float64(got), DTYPES[dtype])
            np.testing.assert_array_equal(as_float64(half), as_float64(got))
            assert_close(half, right[name], name)
        else:
            assert_close(got, right[name], name)


@each_dtype
def test_deform_conv2d_of_half_inputs_keeps_wide_offsets(dtype):
    """As in O2, where the parameters are half types already."""
    data = halved(CASE.arrays(np.float32), dtype)
    out, tensors, grad_out = run_deform(data, casting("O2", dtype))
    _, right_out = expected(data, CASE.attrs())
    assert_close(out.numpy(), right_out, "out")
    assert [name_of(given.grad) for given in tensors] == [dtype, "float32", dtype, dtype, "float32"]


def test_offsets_keep_pixels_apart_beyond_1024():
    """In float16 an offset of 1500.5 would be 1500 or 1501."""
    x = np.zeros((1, 1, 1, 1600), np.float32)
    x[..., 1500] = 1
    offset = paddle.to_tensor(np.array([0, 1500.5], np.float32).reshape([1, 2, 1, 1]))
    with casting("O1", "float16"):
        out = deform_conv2d(
            paddle.to_tensor(x), offset, paddle.ones([1, 1, 1, 1]), stride=[1, 1600]
        )
    assert name_of(out) == "float16" and out.item() == 0.5


@pytest.mark.parametrize("name", ["paddle_ops_deform_conv2d", "deformable_conv"])
def test_black_list_keeps_float32(name):
    data = CASE.arrays(np.float32)
    out, *_ = run_deform(data, casting("O2", "float16", [name]))
    plain, *_ = run_deform(data, contextlib.nullcontext())
    assert name_of(out) == "float32"
    np.testing.assert_array_equal(out.numpy(), plain.numpy())


def test_float64_is_left_alone():
    out, tensors, _ = run_deform(CASE.arrays(np.float64), casting("O2", "float16"))
    assert {name_of(value) for value in [out, *(t.grad for t in tensors)]} == {"float64"}


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_auto_cast_on_the_cpu_is_off_in_dynamic_graphs(level):
    with paddle.amp.auto_cast(level=level, dtype="bfloat16"):
        out = function_of(CASE.attrs())(*(tensor(a) for a in CASE.arrays(np.float32).values()))
    assert name_of(out) == "float32"


LOSSES = {
    "sigmoid": lambda x, y, w: sigmoid_cross_entropy_with_logits(x, y, w, normalize=True),
    "mean": lambda x, y, w: bce(x, y, pos_weight=w),
    "none": lambda x, y, w: bce(x, y, weight=w, reduction="none"),
}


@each_level
@each_dtype
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_compute_in_float32(level, dtype, loss):
    """Half logits give bitwise what their float32 values give; gradients have their own types."""
    random = np.random.RandomState(3)
    narrow = rounded_to(random.uniform(-3, 3, (5, 7)), DTYPES[dtype])
    label, weight = random.uniform(0, 1, (2, 5, 7)).astype(np.float32)
    x, wide = tensor(narrow, False), tensor(as_float64(narrow).astype(np.float32), False)
    y, w = tensor(label, False), tensor(rounded_to(weight, DTYPES[dtype]), False)
    with casting(level, dtype):
        got = LOSSES[loss](x, y, w)
        assert _dygraph_tracer()._amp_level == getattr(core.AmpLevel, level)
    right = LOSSES[loss](wide, tensor(label), w.detach().astype("float32"))
    assert name_of(got) == "float32"
    np.testing.assert_array_equal(got.numpy(), right.numpy())
    got.sum().backward()
    right.sum().backward()
    assert [name_of(t.grad) for t in (x, y, w)] == [dtype, "float32", dtype]
    np.testing.assert_array_equal(x.grad.numpy(), by_paddle(wide.grad.numpy(), dtype))


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.branch = paddle.nn.Conv2D(3, 27, 3, padding=1)
        self.deform = DeformConv2D(3, 4, 3, padding=1)

    def forward(self, x):
        offset, mask = paddle.split(self.branch(x), [18, 9], axis=1)
        return self.deform(x, offset, paddle.nn.functional.sigmoid(mask)).astype("float32")


@contextlib.contextmanager
def as_on_a_gpu(module):
    """What Paddle asks before it turns a part of AMP off on the CPU."""
    place = mock.Mock(
        is_gpu_place=lambda: True, is_xpu_place=lambda: False, is_custom_place=lambda: False
    )
    answers = {
        "_dygraph_tracer": lambda: mock.Mock(_expected_place=place),
        "_is_gpu_float16_supported": lambda: True,
        "_is_gpu_bfloat16_supported": lambda: True,
    }
    with mock.patch.multiple(sys.modules[f"paddle.amp.{module}"], create=True, **answers):
        yield


def scaler_of(scale):
    with as_on_a_gpu("grad_scaler"):
        return paddle.amp.GradScaler(init_loss_scaling=scale)


def loss_of(net, dtype, level="O1"):
    random = np.random.RandomState(6)
    x = paddle.to_tensor(random.uniform(-1, 1, (2, 3, 5, 6)).astype(np.float32))
    label = paddle.to_tensor(random.randint(0, 2, (2, 4, 5, 6)))
    with casting(level, dtype):
        return bce(net(x), label)


def test_a_step_with_grad_scaler():
    """The scaled loss passes: unscaled, the gradients are those of the loss, and a step is made."""
    paddle.seed(5)
    net = Net()
    parameters = net.parameters()
    scaler = scaler_of(1024.0)
    optimizer = paddle.optimizer.SGD(0.1, parameters=parameters)
    loss_of(net, "bfloat16").backward()
    plain = [p.grad.numpy() for p in parameters]
    optimizer.clear_grad()
    scaler.scale(loss_of(net, "bfloat16")).backward()
    assert all(p.grad.dtype == paddle.float32 for p in parameters)
    before = [p.numpy() for p in parameters]
    scaler.step(optimizer)
    scaler.update()
    for p, old, grad in zip(parameters, before, plain):
        # A power of two as scale changes no digit of a bfloat16.
        assert_close(p.numpy(), old - np.float32(0.1) * grad, "a parameter")
        assert np.abs(grad).max() > 0


def test_grad_scaler_sees_the_overflow_of_float16():
    """Then no step is made."""
    net = Net()
    before = [p.numpy() for p in net.parameters()]
    scaler, optimizer = scaler_of(2.0**40), paddle.optimizer.SGD(0.1, parameters=net.parameters())
    scaler.scale(loss_of(net, "float16")).backward()
    assert not np.isfinite(net.deform.weight.grad.numpy()).all()
    scaler.step(optimizer)
    for p, old in zip(net.parameters(), before):
        np.testing.assert_array_equal(p.numpy(), old)


def decorated(dtype):
    """A network for O2. Its branch stays in float32, as offsets should; Paddle's CPU has no
    convolution of half types either.
    """
    paddle.seed(5)
    net = Net()
    optimizer = paddle.optimizer.SGD(0.5, parameters=net.parameters())
    with as_on_a_gpu("auto_cast"):
        return paddle.amp.decorate(
            net, optimizer, level="O2", dtype=dtype, excluded_layers=[net.branch]
        )


@each_dtype
def test_decorate(dtype):
    """The parameters are half types and so are their gradients; the branch's are not."""
    net, _ = decorated(dtype)
    seen = []
    net.deform.register_forward_post_hook(lambda _, inputs, out: seen.extend([*inputs, out]))
    loss_of(net, dtype, "O2").backward()
    x, offset, mask, out = seen
    assert [name_of(t) for t in (x, offset, mask, out)] == ["float32", "float32", "float32", dtype]
    assert {name_of(p.grad) for p in net.branch.parameters()} == {"float32"}

    grad_out = paddle.cos(paddle.arange(out.size).reshape(out.shape).astype("float32"))
    net.clear_gradients()
    with casting("O2", dtype):
        net.deform(x, offset.detach(), mask.detach()).backward(grad_out.astype(dtype))
    data = halved({"x": x.numpy()}, dtype)
    data.update(offset=offset.numpy(), mask=mask.numpy())
    data.update(weight=net.deform.weight.numpy(), bias=net.deform.bias.numpy())
    attrs = {"padding": [1, 1, 1, 1]}
    right, right_out = expected(data, attrs, by_paddle(grad_out.numpy(), dtype))
    assert_close(out.numpy(), right_out, "out")
    for name in ("weight", "bias"):
        grad = getattr(net.deform, name).grad
        assert name_of(grad) == dtype
        assert_close(grad.numpy(), right[name], name)


def test_steps_of_a_decorated_model():
    """Half parameters, a float32 loss, steps. In bfloat16, which needs no scaler, and with SGD:
    Paddle's CPU has no other optimizer for half types, and no scaler's step.
    """
    net, optimizer = decorated("bfloat16")
    scaler_of(1024.0).scale(loss_of(net, "bfloat16", "O2")).backward()
    scaled = [as_float64(p.grad.numpy()) for p in net.deform.parameters()]
    optimizer.clear_grad()
    losses = []
    for _ in range(8):
        loss = loss_of(net, "bfloat16", "O2")
        assert name_of(loss) == "float32"
        loss.backward()
        if not losses:  # a power of two as scale changes no digit
            for p, times_1024 in zip(net.deform.parameters(), scaled):
                np.testing.assert_array_equal(as_float64(p.grad.numpy()) * 1024, times_1024)
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    assert {name_of(p) for p in net.deform.parameters()} == {"bfloat16"}
    assert losses[-1] < losses[0] - 0.01


@needs_pir
@pytest.mark.parametrize("level", ["O1", "O2"])
@each_dtype
def test_programs_of_paddle_3(level, dtype):
    """auto_cast while a program is built: the same casts, float32 gradients and losses."""
    data = CASE.arrays(np.float32)
    with static_guard():
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            given = []
            for name in NAMES:
                given.append(paddle.static.data(name, list(data[name].shape), "float32"))
                given[-1].stop_gradient = False
            with paddle.amp.auto_cast(level=level, dtype=dtype):
                out = function_of(CASE.attrs())(*given)
                loss = bce(out, paddle.zeros(out.shape), reduction="none")
            assert [name_of(out), name_of(loss)] == [dtype, "float32"]
            grads = paddle.static.gradients([loss], given)
        executor = paddle.static.Executor(paddle.CPUPlace())
        got, got_loss, *got_grads = executor.run(main, feed=data, fetch_list=[out, loss, *grads])
    _, right = expected(halved(data, dtype), CASE.attrs())
    assert_close(got, right, "out")
    assert_close(got_loss, np.log1p(np.exp(as_float64(got))), "loss")
    for name, grad in zip(NAMES, got_grads):
        assert grad.dtype == np.float32 and np.abs(grad).max() > 0, name

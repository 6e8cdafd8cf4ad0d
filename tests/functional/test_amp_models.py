"""Models under paddle.amp: auto_cast, decorate, GradScaler, and steps of an optimizer.

The state is that of a GPU (amp_state.py), but Paddle's own operators stay in float32 on the CPU.
"""

import sys
from unittest import mock

import numpy as np
import paddle
from amp_state import (
    as_on_a_gpu,
    casting,
    each_dtype,
    halved,
    name_of,
    needs_pir,
)
from deform_cases import expected
from numeric import as_float64, assert_close

from paddle_ops import deform_conv2d
from paddle_ops.nn import BCEWithLogitsLoss, DeformConv2D, ModulatedDeformConv2DPack

RATE = 0.5


class Deformable(paddle.nn.Layer):
    """Offsets in float32, as docs/amp.md recommends."""

    def __init__(self):
        super().__init__()
        self.branch = paddle.nn.Conv2D(3, 27, 3, padding=1)
        self.deform = DeformConv2D(3, 4, 3, padding=1)

    def forward(self, x):
        with paddle.amp.auto_cast(enable=False):
            offset, mask = paddle.split(self.branch(x.astype("float32")), [18, 9], axis=1)
            mask = paddle.nn.functional.sigmoid(mask)
        return self.deform(x, offset, mask)


class Net(paddle.nn.Layer):
    """And a layer that predicts offsets by itself."""

    def __init__(self):
        super().__init__()
        paddle.seed(5)
        self.first = Deformable()
        self.pack = ModulatedDeformConv2DPack(4, 4, 3, padding=1)
        for p in self.pack.conv_offset.parameters():  # zeros would sample at whole pixels
            p.set_value(paddle.uniform(p.shape, min=-0.3, max=0.3))

    def forward(self, x):
        return self.pack(self.first(x))


def image():
    random = np.random.RandomState(6)
    return paddle.to_tensor(random.uniform(-1, 1, (2, 3, 5, 6)).astype(np.float32))


def loss_of(net, dtype, level="O2"):
    label = np.random.RandomState(7).randint(0, 2, (2, 4, 5, 6))
    with casting(level, dtype):
        return BCEWithLogitsLoss()(net(image()), paddle.to_tensor(label))


def scaler_of(scale):
    with as_on_a_gpu("grad_scaler"):
        return paddle.amp.GradScaler(init_loss_scaling=scale)


def decorated(dtype):
    net = Net()
    optimizer = paddle.optimizer.SGD(RATE, parameters=net.parameters())
    with as_on_a_gpu("auto_cast"):
        return paddle.amp.decorate(
            net, optimizer, level="O2", dtype=dtype, excluded_layers=[net.first.branch]
        )


def recorded(net, dtype):
    """Each call of deform_conv2d in a forward and backward: the tensors, with their gradients."""
    calls = []

    def record(x, offset, weight, bias, mask, **arguments):
        out = deform_conv2d(x, offset, weight, bias, mask=mask, **arguments)
        call = {"x": x, "offset": offset, "weight": weight, "bias": bias, "mask": mask, "out": out}
        for value in call.values():
            if not value.stop_gradient:
                value.retain_grads()
        calls.append(call)
        return out

    layers = sys.modules["paddle_ops.nn.deform_conv2d"]
    with mock.patch.object(layers, "deform_conv2d", record):
        loss = loss_of(net, dtype)
    assert name_of(loss) == "float32"
    loss.backward()
    return calls


@each_dtype
def test_types_of_a_decorated_model(dtype):
    """Parameters, inputs, outputs, and the gradient of each, in its own type."""
    net, _ = decorated(dtype)
    first, second = recorded(net, dtype)
    # The image is float32, offset and mask stay so; conv_offset's are half types on a GPU.
    wide = {"offset": "float32", "mask": "float32"}
    narrow = {"weight": dtype, "bias": dtype, "out": dtype}
    assert {n: name_of(t) for n, t in first.items()} == {"x": "float32", **wide, **narrow}
    assert {n: name_of(t) for n, t in second.items()} == {"x": dtype, **wide, **narrow}
    for call in (first, second):
        assert all(name_of(t.grad) == name_of(t) for t in call.values() if not t.stop_gradient)
    types = {n: (name_of(p), name_of(p.grad)) for n, p in net.named_parameters()}
    assert types == {n: ("float32" if "branch" in n else dtype,) * 2 for n in types}


@each_dtype
def test_values_of_a_decorated_model(dtype):
    """Outputs and gradients of its two layers, from what reached them; and the gradients that reach
    the parameters behind the pack's offset and mask.
    """
    net, _ = decorated(dtype)
    calls = recorded(net, dtype)
    for call in calls:
        data = {name: value.numpy() for name, value in call.items()}
        out = data.pop("out")
        data = halved(data, dtype)
        right, right_out = expected(data, {"padding": [1, 1, 1, 1]}, call["out"].grad.numpy())
        assert_close(out, right_out, "out")
        for name in ("offset", "weight", "bias", "mask"):
            assert_close(call[name].grad.numpy(), right[name], name)

    conv, pack = net.pack.conv_offset, calls[1]
    weight, bias = (
        paddle.to_tensor(p.astype("float32"), stop_gradient=False)
        for p in (conv.weight.detach(), conv.bias.detach())
    )
    x = pack["x"].detach().astype("float32")
    predicted = paddle.nn.functional.conv2d(x, weight, bias, padding=1)
    offset, mask = paddle.split(predicted, [18, 9], axis=1)
    paddle.autograd.backward(
        [offset, paddle.nn.functional.sigmoid(mask)], [pack["offset"].grad, pack["mask"].grad]
    )
    for got, right in ((conv.weight.grad, weight.grad), (conv.bias.grad, bias.grad)):
        assert np.abs(right.numpy()).max() > 0
        assert_close(got.numpy(), right.numpy(), "conv_offset")


def test_steps_of_a_decorated_model():
    """Half parameters make the steps that their gradients say, and the loss falls.

    In bfloat16, with SGD: Paddle's CPU has no other optimizer for half types. It makes float32
    master weights, but its kernel does not use them, so nothing is seen of them here.
    """
    net, optimizer = decorated("bfloat16")
    half = [p for p in net.parameters() if name_of(p) == "bfloat16"]
    assert len(half) == 6
    losses = []
    for _ in range(4):
        loss = loss_of(net, "bfloat16")
        losses.append(loss.item())
        loss.backward()
        right = [as_float64(p.numpy()) - RATE * as_float64(p.grad.numpy()) for p in half]
        optimizer.step()
        optimizer.clear_grad()
        for p, after in zip(half, right):
            assert_close(p.numpy(), after, "a parameter")
    assert losses == sorted(set(losses), reverse=True)
    masters = optimizer.state_dict()["master_weights"]
    assert {name: name_of(value) for name, value in masters.items()} == {
        p.name: "float32" for p in half
    }


def test_scaled_gradients_of_a_decorated_model():
    """A power of two as scale changes no digit of a bfloat16 (of small numbers in float16 it does).

    Paddle's CPU has no scaler's step for half types.
    """
    net, _ = decorated("bfloat16")
    loss_of(net, "bfloat16").backward()
    plain = [as_float64(p.grad.numpy()) for p in net.parameters()]
    net.clear_gradients()
    scaler_of(1024.0).scale(loss_of(net, "bfloat16")).backward()
    for p, grad in zip(net.parameters(), plain):
        np.testing.assert_array_equal(as_float64(p.grad.numpy()), 1024 * grad)


def test_a_step_with_grad_scaler():
    """Unscaled, the gradients of float32 parameters are those of the loss, and a step is made."""
    net = Net()
    parameters = net.parameters()
    scaler, optimizer = scaler_of(1024.0), paddle.optimizer.SGD(RATE, parameters=parameters)
    loss_of(net, "bfloat16", "O1").backward()
    plain = [p.grad.numpy() for p in parameters]
    optimizer.clear_grad()
    scaler.scale(loss_of(net, "bfloat16", "O1")).backward()
    assert all(p.grad.dtype == paddle.float32 for p in parameters)
    before = [p.numpy() for p in parameters]
    scaler.step(optimizer)
    scaler.update()
    for p, old, grad in zip(parameters, before, plain):
        # A power of two as scale changes no digit of a bfloat16.
        assert_close(p.numpy(), old - np.float32(RATE) * grad, "a parameter")
        assert np.abs(grad).max() > 0


def test_grad_scaler_sees_the_overflow_of_float16():
    """Then no step is made."""
    net = Net()
    before = [p.numpy() for p in net.parameters()]
    scaler, optimizer = scaler_of(2.0**40), paddle.optimizer.SGD(RATE, parameters=net.parameters())
    scaler.scale(loss_of(net, "float16", "O1")).backward()
    assert not np.isfinite(net.pack.weight.grad.numpy()).all()
    scaler.step(optimizer)
    for p, old in zip(net.parameters(), before):
        np.testing.assert_array_equal(p.numpy(), old)


@each_dtype
def test_on_the_cpu_nothing_changes(dtype):
    """There decorate, auto_cast and GradScaler, as they are, leave a training loop in float32."""
    paddle.set_device("cpu")
    results = []
    for amp in (False, True):
        net = Net()
        optimizer = paddle.optimizer.SGD(RATE, parameters=net.parameters())
        if amp:
            net, optimizer = paddle.amp.decorate(net, optimizer, level="O2", dtype=dtype)
        scaler = paddle.amp.GradScaler(enable=amp)
        for _ in range(2):
            with paddle.amp.auto_cast(enable=amp, level="O2", dtype=dtype):
                loss = BCEWithLogitsLoss()(net(image()), paddle.ones([2, 4, 5, 6]))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.clear_grad()
        results.append([p.numpy() for p in net.parameters()])
    for plain, cast in zip(*results):
        np.testing.assert_array_equal(cast, plain)


@needs_pir
@each_dtype
def test_offsets_in_float32(dtype):
    """In a program auto_cast is on: without the layer's way, the branch's convolution is cast."""
    net = Deformable()
    with paddle.no_grad():
        wide, _ = paddle.split(net.branch(image()), [18, 9], axis=1)

    @paddle.jit.to_static(full_graph=True)
    def program(x):
        offsets = []
        hook = net.deform.register_forward_pre_hook(lambda _, inputs: offsets.append(inputs[1]))
        with paddle.amp.auto_cast(level="O2", dtype=dtype):
            out = net(x)
        hook.remove()
        return out, offsets[0]

    out, offset = program(image())
    assert [name_of(out), name_of(offset)] == [dtype, "float32"]
    np.testing.assert_array_equal(offset.numpy(), wide.numpy())

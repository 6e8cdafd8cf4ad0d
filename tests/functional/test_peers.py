"""Other libraries as judges, where they are installed: torchvision, PyTorch, ONNX Runtime."""

import numpy as np
import pytest
import tolerances
from deform_cases import CASES, NAMES, Case, cotangent, function_of
from modes import evaluate
from numeric import assert_close, assert_elements

# Four paddings are ONNX's and ours; torchvision has the two symmetric ones.
SYMMETRIC = {
    "plain": Case((2, 3, 6, 9), (4, 3, 2), (2, 1), (1, 1, 2, 2), (1, 2)),
    "no_mask": Case((2, 4, 5, 6), (3, 2, 3), (1, 2), (2, 2, 1, 1), mask=False),
    "no_bias": Case((33, 2, 4, 5), (2, 3, 3), (1, 1), (1, 1, 0, 0), bias=False),
    "groups": Case((1, 6, 5, 4), (4, 3, 2), (1, 1), (1, 1, 0, 0), groups=2, deformable_groups=3),
    # the configuration of torchvision's own tests
    "vision": Case(
        (3, 6, 5, 4), (2, 3, 2), (2, 1), (1, 1, 0, 0), (2, 1), groups=2, deformable_groups=3
    ),
    # that of tvdcn's
    "tvdcn": Case((2, 4, 5, 6), (2, 2, 3), (1, 2), (0, 0, 1, 1), (1, 2), deformable_groups=2),
}


@pytest.mark.parametrize("whole", [False, True], ids=["between", "on_pixels"])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_torchvision_deform_conv2d(name, whole):
    """Output and all gradients in float64, on the border too, under its boundary rule."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ops = pytest.importorskip("torchvision.ops", reason="torchvision is not installed")
    case = SYMMETRIC[name]
    data, attrs = case.arrays(np.float64), case.attrs()
    if whole:
        data["offset"] = np.floor(data["offset"])
    grad_out = cotangent(data, attrs)
    theirs = {
        n: None if a is None else torch.tensor(a, requires_grad=True) for n, a in data.items()
    }
    out = ops.deform_conv2d(
        theirs["x"],
        theirs["offset"],
        theirs["weight"],
        theirs["bias"],
        case.stride,
        (case.padding[0], case.padding[2]),
        case.dilation,
        theirs["mask"],
    )
    out.backward(torch.tensor(grad_out))
    arrays = [data[n] for n in NAMES]
    wanted = [i for i, n in enumerate(NAMES) if data[n] is not None]
    function = function_of({**attrs, "boundary_grad": "torchvision"})
    (got,), grads = evaluate("dygraph", function, arrays, wanted, [grad_out])
    assert_close(got, out.detach().numpy(), "out")
    for i in wanted:
        assert_close(grads[i], theirs[NAMES[i]].grad.numpy(), NAMES[i])


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_pytorch_binary_cross_entropy_with_logits(reduction, weighted, positive):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from paddle_ops import binary_cross_entropy_with_logits

    random = np.random.RandomState(0)
    arrays = [random.uniform(-20, 20, (7, 5)), random.uniform(0, 1, (7, 5))]
    arrays.append(random.uniform(0, 2, (7, 5)) if weighted else None)
    arrays.append(random.uniform(0.1, 4, 5) if positive else None)

    def function(x, label, weight, pos_weight):
        return binary_cross_entropy_with_logits(x, label, weight, reduction, pos_weight)

    theirs = [
        None if a is None else torch.tensor(a, requires_grad=i < 2) for i, a in enumerate(arrays)
    ]
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        theirs[0], theirs[1], theirs[2], reduction=reduction, pos_weight=theirs[3]
    )
    loss.sum().backward()
    (got,), grads = evaluate("dygraph", function, arrays, [0, 1])
    expected = loss.detach().numpy().reshape(got.shape)
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    for i in (0, 1):
        np.testing.assert_allclose(grads[i], theirs[i].grad.numpy(), rtol=1e-10, atol=1e-14)


# A model of one node, as protobuf bytes: ONNX Runtime brings no way to make one, and the onnx
# package is a large thing to install for that.


def _varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while True:
        byte = number & 0x7F
        number >>= 7
        out.append(byte | (0x80 if number else 0))
        if not number:
            return bytes(out)


def _field(number, payload):
    """A length-delimited protobuf field (bytes), or a varint one (int)."""
    if isinstance(payload, int):
        return _varint(number << 3) + _varint(payload)
    payload = payload.encode() if isinstance(payload, str) else payload
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _attribute(name, value):
    # AttributeProto: name 1, i 3, ints 8, type 20 (INT 2, INTS 7)
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    return _field(1, name) + b"".join(_field(8, v) for v in value) + _field(20, 7)


def _value_info(name):
    return _field(1, name) + _field(2, _field(1, _field(1, 1)))  # a float tensor of any shape


def _deform_conv_model(case):
    """ModelProto of one DeformConv node, opset 19."""
    top, bottom, left, right = case.padding
    attributes = {
        "strides": case.stride,
        "pads": (top, left, bottom, right),
        "dilations": case.dilation,
        "kernel_shape": case.kernel[1:],
        "group": case.groups,
        "offset_group": case.deformable_groups,
    }
    inputs = ["X", "W", "offset", "B" if case.bias else "", "mask" if case.mask else ""]
    while inputs[-1] == "":
        inputs.pop()
    node = b"".join(_field(1, i) for i in inputs) + _field(2, "Y") + _field(4, "DeformConv")
    node += b"".join(_field(5, _attribute(n, v)) for n, v in attributes.items())
    graph = _field(1, node) + _field(2, "graph")
    graph += b"".join(_field(11, _value_info(i)) for i in inputs if i)
    graph += _field(12, _value_info("Y"))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 19))


@pytest.mark.parametrize("name", CASES)
def test_onnx_runtime_deform_conv(name):
    """Four-sided padding, groups and deformable groups that do not divide each other."""
    ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    case = CASES[name]
    data = case.arrays(np.float32)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(
        _deform_conv_model(case), options, providers=["CPUExecutionProvider"]
    )
    names = {"x": "X", "weight": "W", "offset": "offset", "bias": "B", "mask": "mask"}
    feed = {names[n]: a for n, a in data.items() if a is not None}
    (expected,) = session.run(None, feed)
    (out,), _ = evaluate("dygraph", function_of(case.attrs()), [data[n] for n in NAMES])
    assert_elements(out, expected, tolerances.PEER, 1.0, name)


@pytest.mark.parametrize("name", ["plain", "no_mask", "no_bias"])
def test_paddle_vision_deform_conv2d(name):
    """Paddle's own operator, where it is right: fp32 and fp64, all inputs wanting gradients."""
    from paddle.vision.ops import deform_conv2d as theirs

    case = SYMMETRIC[name]
    attrs = case.attrs()
    for dtype in (np.float32, np.float64):
        data = case.arrays(dtype)
        grad_out = cotangent(data, attrs)

        def function(x, offset, weight, bias, mask):
            pads = [case.padding[0], case.padding[2]]
            return theirs(
                x, offset, weight, bias, list(case.stride), pads, list(case.dilation),
                case.deformable_groups, case.groups, mask,
            )  # fmt: skip

        arrays = [data[n] for n in NAMES]
        wanted = [i for i, n in enumerate(NAMES) if data[n] is not None]
        (expected,), right = evaluate("dygraph", function, arrays, wanted, [grad_out])
        (out,), grads = evaluate("dygraph", function_of(attrs), arrays, wanted, [grad_out])
        assert_elements(out, expected, tolerances.PEER, 1.0, "out")
        for i in wanted:
            assert_elements(grads[i], right[i], tolerances.PEER, 1.0, NAMES[i])

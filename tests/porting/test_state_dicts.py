"""State dicts of mmcv, detectron2 and torchvision: names, values of each kind, errors."""

import numpy as np
import paddle
import pytest
from numeric import assert_close

from paddle_ops.nn import DeformConv2D, DeformConv2DPack, ModulatedDeformConv2DPack
from paddle_ops.porting import load_detectron2, load_mmcv, load_torchvision

NAMES = ("weight", "bias", "conv_offset.weight", "conv_offset.bias")


def pack(layer_type=ModulatedDeformConv2DPack, **arguments):
    """A layer, and other values for its parameters, by name."""
    layer = layer_type(4, 6, [3, 2], groups=2, **arguments)
    random = np.random.RandomState(0)
    values = {name: random.uniform(-1, 1, p.shape) for name, p in layer.named_parameters()}
    return layer, values


def assert_loaded(layer, values):
    for name, parameter in layer.named_parameters():
        np.testing.assert_array_equal(parameter.numpy(), values[name].astype("float32"), name)


def renamed(values, **starts):
    """Keys of someone else: what stands for "dcn" and "offset" in front of the dot."""
    dcn, offset = starts["dcn"], starts["offset"]
    return {
        (offset + name.split(".")[1] if "." in name else dcn + name): value
        for name, value in values.items()
    }


@pytest.mark.parametrize("layer_type", [DeformConv2D, DeformConv2DPack, ModulatedDeformConv2DPack])
@pytest.mark.parametrize("bias_attr", [None, False])
@pytest.mark.parametrize("offset", ["layer2.0.conv2.conv_offset.", "layer2.0.conv2_offset."])
def test_mmcv(layer_type, bias_attr, offset):
    """In a whole model's state, under the newer and the older name."""
    layer, values = pack(layer_type, bias_attr=bias_attr)
    state = renamed(values, dcn="layer2.0.conv2.", offset=offset)
    load_mmcv(layer, {**state, "layer2.0.bn2.weight": np.ones(6)}, "layer2.0.conv2.")
    assert_loaded(layer, values)


def test_mmcv_without_prefix():
    layer, values = pack()
    load_mmcv(layer, values)
    assert_loaded(layer, values)


@pytest.mark.parametrize("layer_type", [DeformConv2DPack, ModulatedDeformConv2DPack])
def test_detectron2(layer_type):
    layer, values = pack(layer_type, bias_attr=False)
    state = renamed(values, dcn="res4.0.conv2.", offset="res4.0.conv2_offset.")
    norm = {"res4.0.conv2.norm.weight": np.ones(6), "res4.0.conv3.weight": np.ones(6)}
    load_detectron2(layer, {**state, **norm}, "res4.0.conv2.")
    assert_loaded(layer, values)


def test_torchvision_with_both_in_one_convolution():
    layer, values = pack()
    load_torchvision(layer, renamed(values, dcn="a.", offset="b."), "a.", offset="b.")
    assert_loaded(layer, values)


def test_torchvision_with_a_convolution_for_offsets_and_one_for_masks():
    layer, values = pack()
    state = {"dcn.weight": values["weight"], "dcn.bias": values["bias"]}
    for name in ("weight", "bias"):
        state[f"p_conv.{name}"], state[f"m_conv.{name}"] = np.split(
            values[f"conv_offset.{name}"], [12]
        )
    load_torchvision(layer, state, "dcn.", offset="p_conv.", mask="m_conv.")
    assert_loaded(layer, values)


def test_torchvision_alone():
    layer, values = pack(DeformConv2D)
    load_torchvision(layer, values)
    assert_loaded(layer, values)


def test_paddles_own_layer_takes_them_too():
    layer = paddle.vision.ops.DeformConv2D(4, 6, 3, bias_attr=False)
    load_mmcv(layer, {"weight": np.ones((6, 4, 3, 3))})
    assert (layer.weight.numpy() == 1).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["numpy", "paddle", "torch"])
def test_kinds_of_values(kind, dtype):
    layer, values = pack()
    values = {name: value.astype(dtype) for name, value in values.items()}
    convert = {"numpy": lambda a: a, "paddle": paddle.to_tensor}.get(kind)
    if kind == "torch":
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        convert = torch.tensor
    load_mmcv(layer, {name: convert(value) for name, value in values.items()})
    assert_loaded(layer, values)


def test_parameters_and_bfloat16_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    layer, values = pack()
    state = {n: torch.nn.Parameter(torch.tensor(v).bfloat16()) for n, v in values.items()}
    load_mmcv(layer, state)
    assert_loaded(layer, {name: p.detach().double().numpy() for name, p in state.items()})


def test_a_module_of_torchvision_computes_the_same():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ops = pytest.importorskip("torchvision.ops", reason="torchvision is not installed")

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.offset_conv = torch.nn.Conv2d(4, 12, (3, 2), padding=1)
            self.mask_conv = torch.nn.Conv2d(4, 6, (3, 2), padding=1)
            self.dcn = ops.DeformConv2d(4, 6, (3, 2), padding=1, groups=2)

        def forward(self, x):
            return self.dcn(x, self.offset_conv(x), torch.sigmoid(self.mask_conv(x)))

    block = Block().double()
    layer = ModulatedDeformConv2DPack(4, 6, [3, 2], padding=1, groups=2)
    layer.to(dtype="float64")
    load_torchvision(layer, block.state_dict(), "dcn.", offset="offset_conv.", mask="mask_conv.")
    x = np.random.uniform(-1, 1, (2, 4, 6, 5))
    expected = block(torch.tensor(x)).detach().numpy()
    assert_close(layer(paddle.to_tensor(x)).numpy(), expected, "out")


def refusals():
    """(loader, change of the state dict or arguments, error, message)."""
    weights = {name: np.zeros(1) for name in NAMES}

    def without(name):
        return lambda state: {key: value for key, value in state.items() if key != name}

    def wrong(name, value):
        return lambda state: {**state, name: value}

    expected = r"expected the keys weight, bias, conv_offset.weight, conv_offset.bias, "
    return [
        (without("bias"), {}, ValueError, "state_dict: " + expected + "got none of bias"),
        (
            lambda state: {name: state[name] for name in NAMES[:2]},
            {},
            ValueError,
            "got none of conv_offset.weight, conv_offset.bias",
        ),
        (
            wrong("extra", weights["bias"]),
            {},
            ValueError,
            "state_dict: expected only the keys .*, got also extra",
        ),
        (
            wrong("weight", np.zeros((6, 4, 3, 2))),
            {},
            ValueError,
            r"weight: expected shape \[6, 2, 3, 2\], got \[6, 4, 3, 2\]",
        ),
        (wrong("bias", np.zeros(())), {}, ValueError, r"bias: expected shape \[6\], got \[\]"),
        (
            wrong("bias", [0.0] * 6),
            {},
            TypeError,
            "bias: expected an array or a tensor .*, got list",
        ),
        (wrong("bias", np.array(["a"] * 6)), {}, TypeError, "bias: expected an array or a tensor"),
        (dict, dict(prefix="dcn"), ValueError, "prefix: expected a prefix that ends with a dot"),
        (dict, dict(prefix=3), TypeError, "prefix: expected a string, got int"),
        (list, {}, TypeError, "state_dict: expected a dictionary, got list"),
    ]


@pytest.mark.parametrize("change, arguments, error, message", refusals())
def test_mmcv_refuses_and_changes_nothing(change, arguments, error, message):
    layer, values = pack()
    before = {name: p.numpy().copy() for name, p in layer.named_parameters()}
    with pytest.raises(error, match="load_mmcv: .*" + message):
        load_mmcv(layer, change(values), **arguments)
    assert_loaded(layer, before)


def test_an_offset_convolution_that_the_layer_lacks_is_not_dropped():
    _, values = pack()
    with pytest.raises(ValueError, match="got also conv_offset.weight, conv_offset.bias"):
        load_mmcv(DeformConv2D(4, 6, [3, 2], groups=2), values)


def test_torchvision_refuses():
    layer, values = pack()
    with pytest.raises(ValueError, match="offset: expected the prefix of a convolution, got None"):
        load_torchvision(layer, values)
    with pytest.raises(ValueError, match="offset: expected None for a layer that has none"):
        load_torchvision(DeformConv2D(4, 6, 3), values, offset="conv_offset.")
    # the masks alone where offsets and masks are wanted
    state = renamed(values, dcn="dcn.", offset="offset.")
    state["offset.weight"] = state["offset.weight"][:12]
    message = r"offset.weight: expected shape \[18, 4, 3, 2\], got \[12, 4, 3, 2\]"
    with pytest.raises(ValueError, match=message):
        load_torchvision(layer, state, "dcn.", offset="offset.")


def test_other_layers_are_refused():
    with pytest.raises(TypeError, match="layer: expected a DeformConv2D, got Linear"):
        load_detectron2(paddle.nn.Linear(1, 1), {}, "a.")

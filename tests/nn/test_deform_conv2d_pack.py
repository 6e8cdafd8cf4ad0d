"""The layers that predict their own offsets: mmcv's published values, torchvision, plain layers."""

import numpy as np
import paddle
import pytest
import tolerances
from numeric import assert_close, assert_elements

from paddle_ops.nn import DeformConv2DPack, ModulatedDeformConv2DPack

# Numbers of mmcv's tests (tests/test_ops/test_deform_conv.py): one image, a 2 x 2 kernel.
V1_IMAGE = [[1, 2, 3], [0, 1, 2], [3, 5, 2]]
V1_WEIGHT = [[0.4, 0.2], [0.1, 0.9]]
V1_OFFSET_WEIGHT = [
    [0.1, 0.4, 0.6, 0.1], [0.3, 0.2, 0.1, 0.3], [0.5, 0.5, 0.2, 0.8], [0.8, 0.3, 0.9, 0.1],
    [0.3, 0.1, 0.2, 0.5], [0.3, 0.7, 0.5, 0.3], [0.6, 0.2, 0.5, 0.3], [0.4, 0.1, 0.8, 0.4],
]  # fmt: skip
V1_OFFSET_BIAS = [0.7, 0.1, 0.8, 0.5, 0.6, 0.5, 0.4, 0.7]
V1_PUBLISHED = {
    "out": [[1.65, 0], [0, 0]],
    "x": [[-0.666, 0.204, 0], [0.030, -0.416, 0.012], [0, 0.252, 0.129]],
    "weight": [[3.62, 0], [0.40, 0.18]],
    "conv_offset.weight": [
        [1.44, 2.88, 0, 1.44], [-0.72, -1.44, 0, -0.72], [0, 0, 0, 0], [0, 0, 0, 0],
        [-0.10, -0.20, 0, -0.10], [-0.08, -0.16, 0, -0.08], [-0.54, -1.08, 0, -0.54],
        [-0.54, -1.08, 0, -0.54],
    ],
    "conv_offset.bias": [1.44, -0.72, 0, 0, -0.10, -0.08, -0.54, -0.54],
}  # fmt: skip

# tests/test_ops/test_modulated_deform_conv.py: three rows 1 2 3, weights 1, the rest at its start.
V2_PUBLISHED = {
    "out": [[0.5, 1.5, 2.5, 1.5], [1, 3, 5, 3], [1, 3, 5, 3], [0.5, 1.5, 2.5, 1.5]],
    "x": [[2, 2, 2]] * 3,
    "weight": [[9, 9], [9, 9]],
    "conv_offset.weight": [
        [-7, -4, 0, 0], [-9, 7.5, -6, 5], [-4, -7, 0, 0], [-7.5, -9, -5, -6],
        [-7, -4, -7, -4], [-6, 5, -9, 7.5], [-4, -7, -4, -7], [-5, -6, -7.5, -9],
        [10.5, 6, 7, 4], [6, 10.5, 4, 7], [7, 4, 10.5, 6], [4, 7, 6, 10.5],
    ],
    "conv_offset.bias": [-3, -1.5] * 4 + [4.5] * 4,
}  # fmt: skip


@pytest.fixture
def float64():
    """Layers are made of float64 parameters."""
    paddle.set_default_dtype("float64")
    yield
    paddle.set_default_dtype("float32")


def set_parameters(layer, **values):
    for name, parameter in layer.named_parameters():
        value = values.get(name.replace(".", "_"))
        if value is not None:
            parameter.set_value(np.reshape(np.array(value, "float64"), parameter.shape))


def output_and_gradients(layer, x, copies=1):
    """What the published numbers are: the output of one image, gradients for its summed output."""
    x = paddle.to_tensor(np.tile(np.array(x, "float64"), (copies, 1, 1, 1)), stop_gradient=False)
    out = layer(x)
    (out.sum() / copies).backward()
    values = {name: p.grad.numpy() for name, p in layer.named_parameters()}
    return {"out": out.numpy()[0], "x": x.grad.numpy()[0] * copies, **values}


def assert_published(got, published):
    for name, expected in published.items():
        assert_close(got[name], np.reshape(expected, got[name].shape), name)


def test_published_values_of_mmcvs_first_version(float64):
    layer = DeformConv2DPack(1, 1, 2, bias_attr=False)
    set_parameters(
        layer,
        weight=V1_WEIGHT,
        conv_offset_weight=V1_OFFSET_WEIGHT,
        conv_offset_bias=V1_OFFSET_BIAS,
    )
    # ten equal images, as there
    assert_published(output_and_gradients(layer, V1_IMAGE, 10), V1_PUBLISHED)


def test_published_values_of_mmcvs_second_version(float64):
    layer = ModulatedDeformConv2DPack(1, 1, 2, padding=1, bias_attr=False)
    set_parameters(layer, weight=np.ones((1, 1, 2, 2)))
    assert_published(output_and_gradients(layer, [[1, 2, 3]] * 3), V2_PUBLISHED)


@pytest.mark.parametrize(
    "layer_type, factor", [(DeformConv2DPack, 1), (ModulatedDeformConv2DPack, 0.5)]
)
def test_they_start_as_a_plain_convolution(layer_type, factor, float64):
    arguments = dict(stride=[2, 1], padding=[1, 0, 2, 1], dilation=[1, 2], groups=2)
    layer = layer_type(4, 6, [3, 2], deformable_groups=2, **arguments)
    for parameter in (layer.conv_offset.weight, layer.conv_offset.bias):
        assert not parameter.numpy().any() and not parameter.stop_gradient
    x = paddle.randn([2, 4, 7, 9])
    plain = paddle.nn.functional.conv2d(x, layer.weight, **arguments)
    assert_close(layer(x).numpy(), factor * plain.numpy(), "out")


@pytest.mark.parametrize(
    "layer_type, numbers", [(DeformConv2DPack, 2), (ModulatedDeformConv2DPack, 3)]
)
def test_names_and_shapes_of_the_state(layer_type, numbers):
    state = layer_type(4, 6, [3, 2], deformable_groups=2, groups=2).state_dict()
    assert {name: value.shape for name, value in state.items()} == {
        "weight": [6, 2, 3, 2],
        "bias": [6],
        "conv_offset.weight": [numbers * 12, 4, 3, 2],
        "conv_offset.bias": [numbers * 12],
    }
    assert "bias" not in layer_type(4, 6, 3, bias_attr=False).state_dict()


@pytest.mark.parametrize("layer_type", [DeformConv2DPack, ModulatedDeformConv2DPack])
@pytest.mark.parametrize("full_graph", [True, False])
def test_they_can_be_traced(layer_type, full_graph):
    layer = layer_type(4, 6, 3, padding=1, deformable_groups=2)
    layer.conv_offset.weight.set_value(paddle.randn(layer.conv_offset.weight.shape) * 0.1)
    x = paddle.randn([2, 4, 7, 5])
    expected = layer(x).numpy()
    traced = paddle.jit.to_static(layer, full_graph=full_graph)
    assert_elements(traced(x).numpy(), expected, tolerances.FP32_ELEMENT, 1.0, "out")


@pytest.mark.parametrize("layer_type", [DeformConv2DPack, ModulatedDeformConv2DPack])
def test_all_of_it_learns(layer_type):
    paddle.seed(0)
    layer = layer_type(2, 3, 3, padding=1)
    x, target = paddle.randn([2, 2, 6, 7]), paddle.randn([2, 3, 6, 7])
    optimizer = paddle.optimizer.Adam(0.05, parameters=layer.parameters())
    before = {name: p.numpy().copy() for name, p in layer.named_parameters()}
    losses = []
    for _ in range(20):
        loss = ((layer(x) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    for name, parameter in layer.named_parameters():
        assert (parameter.numpy() != before[name]).any(), name


@pytest.mark.parametrize("layer_type", [DeformConv2DPack, ModulatedDeformConv2DPack])
def test_bad_configuration(layer_type):
    for arguments, name in (
        (dict(groups=3), "groups"),
        (dict(deformable_groups=0), "deformable_groups"),
    ):
        with pytest.raises(ValueError, match=name):
            layer_type(4, 6, 3, **arguments)


@pytest.mark.parametrize("modulated", [False, True])
def test_torchvision(modulated, float64):
    """Output and all gradients, the convolution that predicts the offsets included."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ops = pytest.importorskip("torchvision.ops", reason="torchvision is not installed")
    layer_type = ModulatedDeformConv2DPack if modulated else DeformConv2DPack
    geometry = dict(stride=(2, 1), padding=(1, 2), dilation=(1, 2))
    layer = layer_type(
        4, 6, (3, 2), deformable_groups=2, groups=2, boundary_grad="torchvision", **geometry
    )
    for parameter in layer.parameters():
        parameter.set_value(0.3 * paddle.randn(parameter.shape))
    array = np.random.uniform(-1, 1, (2, 4, 7, 6))
    got = output_and_gradients(layer, array)

    theirs = {
        name: torch.tensor(p.numpy(), requires_grad=True) for name, p in layer.named_parameters()
    }
    x = torch.tensor(array, requires_grad=True)
    predicted = torch.nn.functional.conv2d(
        x, theirs["conv_offset.weight"], theirs["conv_offset.bias"], **geometry
    )
    mask = None
    if modulated:
        o1, o2, mask = torch.chunk(predicted, 3, dim=1)
        predicted, mask = torch.cat((o1, o2), dim=1), torch.sigmoid(mask)
    arguments = [theirs["weight"], theirs["bias"], *geometry.values(), mask]
    out = ops.deform_conv2d(x, predicted, *arguments)
    out.sum().backward()
    assert_close(got["out"], out.detach().numpy()[0], "out")
    assert_close(got["x"], x.grad.numpy()[0], "x")
    for name, value in theirs.items():
        assert_close(got[name], value.grad.numpy(), name)

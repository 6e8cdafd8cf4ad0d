"""Export to ONNX: ONNX Runtime computes the same from the file as the layer did in Paddle."""

import itertools

import child
import numpy as np
import paddle
import pytest
import tolerances
from deform_cases import CASES

from paddle_ops import deform_conv2d, sigmoid_cross_entropy_with_logits
from paddle_ops import onnx as exporter
from paddle_ops.nn import DeformConv2D

PADDLE_2 = paddle.__version__.startswith("2.")
if not PADDLE_2:
    REASON = "needs what pip install 'paddle-ops[onnx]' installs"
    onnx = pytest.importorskip("onnx", reason=REASON)
    onnxruntime = pytest.importorskip("onnxruntime", reason=REASON)
    pytest.importorskip("paddle2onnx", reason=REASON)
needs_paddle_3 = pytest.mark.skipif(PADDLE_2, reason="Paddle2ONNX needs Paddle 3")

VARIANTS = [
    (name, mask, bias)
    for name, (mask, bias) in itertools.product(CASES, [(1, 1), (1, 0), (0, 1), (0, 0)])
]


def spec(shape, dtype="float32", name=None):
    return paddle.static.InputSpec(shape, dtype, name)


def error(got, expected):
    """The largest difference, in units of the largest element."""
    assert got.shape == expected.shape
    return np.abs(got - expected).max() / np.abs(expected).max()


class Bank(paddle.nn.Layer):
    """Every case in one model, since an export takes seconds."""

    def __init__(self):
        super().__init__()
        self.cases, self.data = [], []
        for number, (name, mask, bias) in enumerate(VARIANTS):
            case = CASES[name]
            data = case.arrays(np.float32, seed=number)
            layer = DeformConv2D(
                case.x[1], case.kernel[0], case.kernel[1:], bias_attr=None if bias else False,
                **{**case.attrs(), "padding": list(case.padding)},
            )  # fmt: skip
            layer.weight.set_value(data["weight"])
            if bias:
                layer.bias.set_value(data["bias"])
            self.cases.append(self.add_sublayer(str(number), layer))
            self.data.append([data[n] for n in ("x", "offset", "mask")[: 2 + mask]])

    def forward(self, inputs):
        return [layer(*given) for layer, given in zip(self.cases, inputs)]


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    """The nodes, what ONNX Runtime returns, what Paddle returns; each in the order of VARIANTS."""
    layer = Bank()
    layer.eval()
    path = str(tmp_path_factory.mktemp("onnx") / "bank.onnx")
    # Batch and image sizes are free.
    specs = [[spec([None, a.shape[1], None, None]) for a in given] for given in layer.data]
    exporter.export(layer, path, [specs])
    session = onnxruntime.InferenceSession(path)
    names = [value.name for value in session.get_inputs()]
    arrays = [array for given in layer.data for array in given]
    got = session.run(None, dict(zip(names, arrays)))
    right = layer([[paddle.to_tensor(a) for a in given] for given in layer.data])
    nodes = [n for n in onnx.load(path).graph.node if n.op_type == "DeformConv"]
    return nodes, got, [out.numpy() for out in right]


@needs_paddle_3
@pytest.mark.parametrize(
    "number", range(len(VARIANTS)), ids=["-".join(map(str, v)) for v in VARIANTS]
)
def test_round_trip(bank, number):
    nodes, got, right = bank
    assert error(got[number], right[number]) <= tolerances.ONNX
    name, mask, _ = VARIANTS[number]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in nodes[number].attribute}
    top, bottom, left, right = CASES[name].padding
    assert attributes["pads"] == [top, left, bottom, right]
    assert nodes[number].domain == "" and len(nodes[number].input) == (5 if mask else 3)


class Net(paddle.nn.Layer):
    """Offsets and masks from a convolution, two deformable layers, and what stands around them."""

    def __init__(self):
        super().__init__()
        nn = paddle.nn
        self.stem = nn.Sequential(nn.Conv2D(3, 8, 3, 2, 1), nn.BatchNorm2D(8), nn.ReLU())
        self.branch = nn.Conv2D(8, 27, 3, padding=1)
        self.deform = DeformConv2D(8, 6, 3, padding=1, groups=2)
        self.plain = DeformConv2D(6, 5, 3, padding=[2, 0, 0, 2], bias_attr=False)
        self.head = nn.Linear(5, 4)

    def forward(self, x):
        x = self.stem(x)
        offset, mask = paddle.split(self.branch(x), [18, 9], axis=1)
        x = self.deform(x, offset, 2 * paddle.nn.functional.sigmoid(mask))
        return self.head(self.plain(x, 0.5 * offset).mean([2, 3]))


@needs_paddle_3
@pytest.mark.parametrize("source", ["layer", "saved"])
def test_network_with_free_sizes(tmp_path, source):
    net, path = Net(), tmp_path / "net.onnx"
    net.eval()
    specs = [spec([None, 3, None, None], name="x")]
    if source == "layer":
        exporter.export(net, path, specs, opset_version=20)
    else:
        paddle.jit.save(net, str(tmp_path / "net"), input_spec=specs)
        exporter.export(tmp_path / "net", path, opset_version=20)
    assert paddle.in_dynamic_mode()
    model = onnx.load(str(path))
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 20)]
    assert sum(node.op_type == "DeformConv" for node in model.graph.node) == 2
    session = onnxruntime.InferenceSession(str(path))
    for shape in ((2, 3, 12, 15), (1, 3, 9, 8), (5, 3, 16, 7)):
        x = np.random.uniform(-1, 1, shape).astype(np.float32)
        right = net(paddle.to_tensor(x)).numpy()
        assert error(session.run(None, {"x": x})[0], right) <= tolerances.ONNX


class Loss(paddle.nn.Layer):
    def forward(self, x):
        return sigmoid_cross_entropy_with_logits(x, x)


class InControlFlow(paddle.nn.Layer):
    def forward(self, x, offset):
        weight = paddle.ones([1, 1, 1, 1])
        if x.sum() > 0:
            x = deform_conv2d(x, offset, weight)
        return x


class Half(paddle.nn.Layer):
    def forward(self, x, offset):
        return deform_conv2d(x, offset, paddle.ones([1, 1, 1, 1], "float16"))


class Unknown(paddle.nn.Layer):
    def forward(self, x):
        return paddle.linalg.svd(x)[0]


IMAGE = [1, 1, 2, 2]


@needs_paddle_3
@pytest.mark.parametrize(
    "model, specs, options, error, words",
    [
        (Loss(), [IMAGE], {}, ValueError, "a network without its loss"),
        (
            InControlFlow(),
            [IMAGE, [1, 2, 2, 2]],
            {},
            ValueError,
            "no deform_conv2d in control flow",
        ),
        (Half(), [IMAGE, [1, 2, 2, 2]], {}, TypeError, "float32 or float64"),
        (Unknown(), [[3, 3]], {}, RuntimeError, "svd"),
        (Unknown(), [[3, 3]], {"opset_version": 18}, ValueError, "at least 19, got 18"),
        (3, [[3, 3]], {}, TypeError, "model: expected a Layer or a path, got int"),
    ],
    ids=["loss", "control_flow", "half", "unknown_operator", "old_opset", "no_model"],
)
def test_what_cannot_be_exported(tmp_path, model, specs, options, error, words):
    dtype = "float16" if isinstance(model, Half) else "float32"
    path = tmp_path / "model.onnx"
    with pytest.raises(error, match=words):
        exporter.export(model, path, [spec(shape, dtype) for shape in specs], **options)
    assert not path.exists()
    assert paddle.in_dynamic_mode()


def test_without_the_converter_there_is_an_import_error():
    printed = child.run(
        """
import sys
sys.modules["paddle2onnx"] = None
import paddle
from paddle_ops import onnx
try:
    onnx.export(paddle.nn.ReLU(), "never.onnx", [paddle.static.InputSpec([1], "float32")])
except ImportError as error:
    print(error)
"""
    )
    assert "pip install 'paddle-ops[onnx]'" in printed or "needs Paddle 3" in printed

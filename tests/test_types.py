"""What a type checker makes of programs that use the package: py.typed and the annotations."""

import paddle
import pytest
from mypy import api

pytestmark = pytest.mark.skipif(
    paddle.__version__.startswith("2."), reason="Paddle 2.6 has no types itself"
)

PROGRAM = """\
import pathlib
import paddle
from matplotlib.figure import Figure
from typing_extensions import assert_type
import paddle_ops
from paddle_ops import jit, nn, onnx, porting, viz
x = offset = weight = paddle.ones([1])
"""
# each a line of a program that is right
RIGHT = """\
assert_type(paddle_ops.deform_conv2d(x, offset, weight, None, [1, 2], (1, 0, 2, 1)), paddle.Tensor)
paddle_ops.deform_conv2d(x, offset, weight, mask=x, boundary_grad="torchvision", name="a")
assert_type(paddle_ops.sigmoid_cross_entropy_with_logits(x, x, x, True, -1), paddle.Tensor)
paddle_ops.functional.sigmoid_cross_entropy_with_logits(x, x, pos_weight_form="softplus")
assert_type(paddle_ops.binary_cross_entropy_with_logits(x, x, reduction="none"), paddle.Tensor)
assert_type(nn.DeformConv2D(2, 4, [3, 2], bias_attr=False).weight, paddle.Tensor)
assert_type(nn.DeformConv2DPack(2, 4, 3).forward(x), paddle.Tensor)
assert_type(nn.ModulatedDeformConv2DPack(2, 4, 3, padding=1).forward(x), paddle.Tensor)
assert_type(nn.BCEWithLogitsLoss(reduction="sum").forward(x, x), paddle.Tensor)
porting.load_mmcv(nn.DeformConv2DPack(2, 4, 3), {"weight": x})
assert_type(porting.offsets_from_ascend(x, "NHWC"), tuple[paddle.Tensor, paddle.Tensor])
onnx.export(nn.DeformConv2DPack(2, 4, 3), pathlib.Path("a.onnx"), [x])
jit.load(verbose=True)
assert_type(paddle_ops.get_num_threads(), int)
paddle_ops.set_num_threads(2)
with paddle_ops.patch_paddle(): pass
viz.pos_weight_forms(Figure(), pos_weight=2)
"""
# each a line that is wrong, with what mypy calls it
WRONG = """\
paddle_ops.deform_conv2d(x, offset)  # call-arg
paddle_ops.deform_conv2d(x, offset, weight, stride="2")  # arg-type
paddle_ops.deform_conv2d(x, offset, weight, boundary_grad="torch")  # arg-type
paddle_ops.deform_conv2d(x, offset, weight, mask=1.0)  # arg-type
paddle_ops.sigmoid_cross_entropy_with_logits(x, x, ignore_index="a")  # arg-type
paddle_ops.sigmoid_cross_entropy_with_logits(x, x, pos_weight_form="paddle")  # arg-type
paddle_ops.binary_cross_entropy_with_logits(x, x, reduction="batch")  # arg-type
nn.DeformConv2D(2, 4)  # call-arg
nn.DeformConv2D(2, 4, 3, strides=2)  # call-arg
nn.ModulatedDeformConv2DPack(2, 4, kernel_size=3.0)  # arg-type
nn.BCEWithLogitsLoss(reduction=1)  # arg-type
porting.load_mmcv(x, {})  # arg-type
porting.offsets_from_ascend(x, "NHC")  # arg-type
paddle_ops.set_num_threads("2")  # arg-type
paddle_ops.deform_conv(x, offset, weight)  # attr-defined
"""


def complaints(folder, lines):
    """{number of the line: what mypy calls its fault}."""
    program = folder / "program.py"
    program.write_text(PROGRAM + lines)
    options = ["--strict", "--no-pretty", "--hide-error-context", "--no-incremental"]
    said, failed, _ = api.run([*options, str(program)])
    assert not failed, failed
    first = PROGRAM.count("\n") + 1
    errors = [line for line in said.splitlines() if ": error: " in line]
    return {int(e.split(":")[1]) - first: e.rsplit("[", 1)[1].rstrip("]") for e in errors}


def test_right_programs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the installed package, not the one beside the tests
    assert complaints(tmp_path, RIGHT) == {}


def test_wrong_programs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    right = dict(enumerate(line.split("# ")[1] for line in WRONG.splitlines()))
    assert complaints(tmp_path, WRONG) == right

"""What a type checker makes of programs that use the package: py.typed and the annotations."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import paddle
import pytest

import paddle_ops
from paddle_ops import functional, jit, nn, onnx, porting, viz

needs_types = pytest.mark.skipif(
    paddle.__version__.startswith("2."), reason="Paddle 2.6 has no types itself"
)
needs_wheel = pytest.mark.skipif(
    Path(paddle_ops.__file__).parents[1] == Path(__file__).parents[1],
    reason="an installation of the sources themselves (pip install -e): mypy cannot see it",
)

PROGRAM = """\
import pathlib
import paddle
from matplotlib.figure import Figure
from typing_extensions import assert_type
import paddle_ops
from paddle_ops import jit, nn, onnx, porting, viz
x = offset = weight = paddle.ones([1])
Pair = tuple[paddle.Tensor, paddle.Tensor]
"""
# each a line of a program that is right
RIGHT = """\
assert_type(paddle_ops.deform_conv2d(x, offset, weight, None, [1, 2], (1, 0, 2, 1)), paddle.Tensor)
paddle_ops.deform_conv2d(x, offset, weight, mask=x, boundary_grad="torchvision", name="a")
assert_type(paddle_ops.sigmoid_cross_entropy_with_logits(x, x, x, True, -1), paddle.Tensor)
paddle_ops.functional.sigmoid_cross_entropy_with_logits(x, x, pos_weight_form="softplus")
assert_type(paddle_ops.binary_cross_entropy_with_logits(x, x, reduction="none"), paddle.Tensor)
assert_type(nn.DeformConv2D(2, 4, [3, 2], bias_attr=False).weight, paddle.Tensor)
assert_type(nn.DeformConv2D(2, 4, 3)(x, offset, mask=x), paddle.Tensor)
assert_type(nn.DeformConv2DPack(2, 4, 3)(x), paddle.Tensor)
assert_type(nn.ModulatedDeformConv2DPack(2, 4, 3, padding=1)(x), paddle.Tensor)
assert_type(nn.ModulatedDeformConv2DPack(2, 4, 3).forward(x), paddle.Tensor)
assert_type(nn.BCEWithLogitsLoss(reduction="sum")(x, x), paddle.Tensor)
assert_type(paddle.nn.Sequential(nn.DeformConv2DPack(2, 4, 3)), paddle.nn.Sequential)
porting.load_mmcv(nn.DeformConv2DPack(2, 4, 3), {"weight": x})
porting.load_detectron2(nn.DeformConv2D(2, 4, 3), {}, "res4.0.conv2.")
porting.load_torchvision(nn.DeformConv2D(2, 4, 3), {}, offset="conv_offset.")
assert_type(porting.offsets_from_ascend(x, "NHWC"), Pair)
assert_type(porting.offsets_from_dcnv3(x, x, 3, dilation=(1, 2)), Pair)
assert_type(porting.offsets_from_dcnv4(x, [3, 5], 2), Pair)
assert_type(porting.offsets_from_tensorflow(x), tuple[paddle.Tensor, paddle.Tensor | None])
assert_type(porting.weight_from_tensorflow(x), paddle.Tensor)
assert_type(porting.same_padding([5, 6], 3, stride=2), list[int])
onnx.export(nn.DeformConv2DPack(2, 4, 3), pathlib.Path("a.onnx"), [x])
jit.load(verbose=True)
assert_type([jit.sources(), jit.include_paths(), jit.link_flags()], list[list[str]])
assert_type([jit.cxx_flags(), jit.cuda_flags()], list[list[str]])
assert_type(paddle_ops.get_num_threads(), int)
paddle_ops.set_num_threads(2)
with paddle_ops.patch_paddle(): pass
paddle_ops.unpatch_paddle()
viz.sampling_locations(Figure().subplots(), x, offset, (1, 2), kernel_size=[3, 2])
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
paddle_ops.binary_cross_entropy_with_logits(x, x, reduction=3)  # arg-type
nn.DeformConv2D(2, 4)  # call-arg
nn.DeformConv2D(2, 4, 3, strides=2)  # call-arg
nn.DeformConv2D(2, 4, 3)(x)  # call-arg
nn.DeformConv2DPack(2, 4, 3)(x, offset)  # call-arg
nn.BCEWithLogitsLoss()(x, 1.0)  # arg-type
nn.ModulatedDeformConv2DPack(2, 4, kernel_size=3.0)  # arg-type
nn.BCEWithLogitsLoss(reduction=1)  # arg-type
porting.load_mmcv(x, {})  # arg-type
porting.offsets_from_ascend(x, "NHC")  # arg-type
paddle_ops.set_num_threads("2")  # arg-type
paddle_ops.deform_conv(x, offset, weight)  # attr-defined
"""


def complaints(folder, lines):
    """{number of the line: what mypy calls its fault}."""
    (folder / "program.py").write_text(PROGRAM + lines)
    options = ["--strict", "--no-pretty", "--hide-error-context", "--no-incremental"]
    # In a process of its own, elsewhere: conftest.py makes the sources importable, and they have
    # everything that the wheel may lack.
    command = [sys.executable, "-m", "mypy", *options, "program.py"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert not said.stderr, said.stderr
    first = PROGRAM.count("\n") + 1
    errors = [line for line in said.stdout.splitlines() if ": error: " in line]
    return {int(e.split(":")[1]) - first: e.rsplit("[", 1)[1].rstrip("]") for e in errors}


@needs_types
@needs_wheel
def test_right_programs(tmp_path):
    assert complaints(tmp_path, RIGHT) == {}


@needs_types
@needs_wheel
def test_wrong_programs(tmp_path):
    right = dict(enumerate(line.split("# ")[1] for line in WRONG.splitlines()))
    assert complaints(tmp_path, WRONG) == right


def test_the_right_program_has_every_public_name():
    names = {
        name for module in (paddle_ops, functional, nn, porting, jit) for name in module.__all__
    }
    for module in (onnx, viz):
        names |= {
            name
            for name, function in inspect.getmembers(module, inspect.isfunction)
            if function.__module__ == module.__name__ and not name.startswith("_")
        }
    assert {name for name in names if not re.search(rf"\b{name}\b", RIGHT)} == set()

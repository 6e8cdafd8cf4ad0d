"""Saved models: jit.load, the inference predictor and a static program, each in a new process."""

import child
import numpy as np
import paddle
import pytest
from numeric import assert_close

from paddle_ops import sigmoid_cross_entropy_with_logits
from paddle_ops.nn import DeformConv2D


class Net(paddle.nn.Layer):
    """Both operators between convolutions of 16 channels, which oneDNN keeps in blocks of 8 or 16.

    Paddle 3 takes oneDNN's kernels in its predictor, and hands their blocks to custom operators.
    """

    def __init__(self, with_mask):
        super().__init__()
        self.stem = paddle.nn.Conv2D(3, 16, 3, padding=1)
        self.offset = paddle.nn.Conv2D(16, 32, 3, padding=1)
        self.mask = paddle.nn.Conv2D(16, 16, 3, padding=1) if with_mask else None
        self.deform = DeformConv2D(16, 16, 2, padding=[1, 0, 0, 1], deformable_groups=4)
        self.last = paddle.nn.Conv2D(16, 16, 1)

    def forward(self, x):
        x = self.stem(x)
        mask = None if self.mask is None else self.mask(x)
        out = self.last(self.deform(x, self.offset(x), mask))
        return out, sigmoid_cross_entropy_with_logits(out, x)


RUN = """
import os
import numpy as np, paddle, paddle_ops
from paddle import inference
os.chdir(FOLDER)
inputs = list(np.load("inputs.npz").values())
loaded = paddle.jit.load("net")
outs = [out.numpy() for x in inputs for out in loaded(paddle.to_tensor(x))]

program = "net.json" if os.path.exists("net.json") else "net.pdmodel"
for onednn in (True, False):
    config = inference.Config(program, "net.pdiparams")
    config.enable_mkldnn() if onednn else getattr(config, "disable_mkldnn", bool)()
    predictor = inference.create_predictor(config)
    for x in inputs:
        predictor.get_input_handle("x").copy_from_cpu(x)
        predictor.run()
        for name in predictor.get_output_names():
            outs.append(predictor.get_output_handle(name).copy_to_cpu())

paddle.enable_static()
executor = paddle.static.Executor(paddle.CPUPlace())
static, _, fetches = paddle.static.load_inference_model("net", executor)
for x in inputs:
    outs += executor.run(static, feed=dict(x=x), fetch_list=fetches)
np.savez("outs.npz", *outs)
"""


@pytest.mark.parametrize("with_mask", [True, False])
def test_saved_net_runs_in_a_new_process(tmp_path, with_mask):
    """jit.save with unknown batch and image sizes, then everything that runs such a file."""
    net = Net(with_mask)
    net.eval()
    spec = paddle.static.InputSpec([None, 3, None, None], "float32", "x")
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=[spec])
    inputs = [np.random.uniform(-1, 1, s).astype(np.float32) for s in ((2, 3, 6, 7), (1, 3, 9, 4))]
    right = [out.numpy() for x in inputs for out in net(paddle.to_tensor(x))]
    np.savez(tmp_path / "inputs.npz", *inputs)
    child.run(RUN.replace("FOLDER", repr(str(tmp_path))))
    outs = list(np.load(tmp_path / "outs.npz").values())
    assert len(outs) == 4 * len(right)
    for number, (got, expected) in enumerate(zip(outs, right * 4)):
        assert_close(got, expected, f"output {number}")

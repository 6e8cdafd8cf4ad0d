"""Two processes on halves of a batch do what one does on the whole of it (gloo, CPU)."""

import pathlib

import numpy as np
import paddle
import pytest
from numeric import assert_close
from processes import run_two

from paddle_ops import binary_cross_entropy_with_logits
from paddle_ops.nn import DeformConv2D


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.branch = paddle.nn.Conv2D(4, 54, 3, padding=1)
        self.deform = DeformConv2D(4, 6, 3, padding=1, deformable_groups=2, groups=2)

    def forward(self, x, label):
        offset, mask = paddle.split(self.branch(x), [36, 18], axis=1)
        out = self.deform(x, offset, paddle.nn.functional.sigmoid(mask))
        pos_weight = paddle.to_tensor([0.5, 3.0, 1.0, 1.0, 2.0, 0.25]).reshape([6, 1, 1])
        return binary_cross_entropy_with_logits(out, label, pos_weight=pos_weight)


DATA_PARALLEL = """
from test_distributed import Net
data = np.load(FOLDER + "/data.npz")
net = Net()
net.set_state_dict({name: paddle.to_tensor(data[name]) for name in net.state_dict()})
parallel = paddle.DataParallel(net)
half = slice(2 * rank, 2 * rank + 2)
loss = parallel(paddle.to_tensor(data["x"][half]), paddle.to_tensor(data["label"][half]))
loss.backward()
grads = {name: p.grad.numpy() for name, p in net.named_parameters()}
np.savez(f"{FOLDER}/{rank}.npz", loss=loss.numpy(), **grads)
"""


def run(script, folder):
    """Runs a script of this file as both ranks."""
    here = str(pathlib.Path(__file__).parent)
    run_two(f"import sys\nsys.path.append({here!r})\nFOLDER = {str(folder)!r}\n{script}")


def test_data_parallel_gradients_are_those_of_the_whole_batch(tmp_path):
    paddle.seed(7)
    net = Net()
    x = np.random.uniform(-1, 1, (4, 4, 6, 5)).astype(np.float32)
    label = np.random.randint(0, 2, (4, 6, 6, 5)).astype(np.float32)
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    np.savez(tmp_path / "data.npz", x=x, label=label, **state)
    run(DATA_PARALLEL, tmp_path)
    ranks = [np.load(tmp_path / f"{rank}.npz") for rank in range(2)]
    assert ranks[0]["loss"] != ranks[1]["loss"]  # each had a half of its own
    loss = net(paddle.to_tensor(x), paddle.to_tensor(label))
    loss.backward()
    mean = np.mean([rank["loss"] for rank in ranks], dtype=np.float32)
    assert_close(mean, loss.numpy(), "loss")
    for name, parameter in net.named_parameters():
        for rank in ranks:
            assert_close(rank[name], parameter.grad.numpy(), name)


@pytest.mark.skipif(paddle.__version__.startswith("2."), reason="Paddle 2.6 takes no such rules")
@pytest.mark.parametrize(
    "check", ["check_deform_conv2d", "check_cross_entropy", "check_double_gradient"]
)
def test_auto_parallel_splits_and_gives_the_same(tmp_path, check):
    run(f"import auto_parallel_rank\nauto_parallel_rank.{check}()", tmp_path)

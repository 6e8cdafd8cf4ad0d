"""What each of two processes of auto-parallel Paddle checks; test_distributed.py starts them."""

import numpy as np
import paddle
import paddle.distributed as dist
import pytest
from deform_cases import NAMES, Case, function_of
from numeric import assert_close

from paddle_ops import sigmoid_cross_entropy_with_logits

WHOLE, BATCH = dist.Replicate(), dist.Shard(0)
SUM = dist.Partial()


def compare(function, arrays, placements, wanted, out_placement, grad_placements):
    """Runs a function on split tensors and on whole ones: values, gradients and how they lie."""
    mesh = dist.ProcessMesh([0, 1], dim_names=["x"])
    split, whole = [], []
    for i, (array, placement) in enumerate(zip(arrays, placements)):
        both = [None, None]
        if array is not None:
            both = [dist.shard_tensor(paddle.to_tensor(array), mesh, [placement])]
            both.append(paddle.to_tensor(array))
            for given in both:
                given.stop_gradient = i not in wanted
        split.append(both[0])
        whole.append(both[1])
    out, right = function(*split), function(*whole)
    assert out.placements == [out_placement], out.placements
    assert_close(dist.unshard_dtensor(out).numpy(), right.numpy(), "out")
    (out * out).sum().backward()
    (right * right).sum().backward()
    for i in wanted:
        if whole[i] is not None:
            assert split[i].grad.placements == [grad_placements[i]], (i, split[i].grad.placements)
            got = dist.unshard_dtensor(split[i].grad).numpy()
            assert_close(got, whole[i].grad.numpy(), f"gradient {i}")


def check_deform_conv2d():
    """The batch is split, also an odd one; one split input splits the others; weights are whole."""
    case = Case((3, 4, 5, 6), (6, 3, 2), (1, 2), (1, 0, 1, 1), groups=2, deformable_groups=2)
    grads = [BATCH, BATCH, SUM, SUM, BATCH]
    everything = range(len(NAMES))
    for batch, mask, bias, wanted, placements in (
        (4, True, True, everything, [BATCH, BATCH, WHOLE, WHOLE, BATCH]),
        (3, True, False, everything, [BATCH, BATCH, WHOLE, WHOLE, BATCH]),
        (4, False, True, everything, [BATCH, WHOLE, dist.Shard(0), WHOLE, BATCH]),
        (4, True, True, [1, 2], [WHOLE, WHOLE, WHOLE, WHOLE, BATCH]),
    ):
        this = Case((batch, *case.x[1:]), case.kernel, case.stride, case.padding, (1, 1), 2, 2)
        data = this.arrays(np.float32)
        data["mask"] = data["mask"] if mask else None
        data["bias"] = data["bias"] if bias else None
        function = function_of(this.attrs())
        compare(function, list(data.values()), placements, wanted, BATCH, grads)
    data = case.arrays(np.float32)  # nothing is split
    compare(
        function_of(case.attrs()), list(data.values()), [WHOLE] * 5, everything, WHOLE, [WHOLE] * 5
    )


def check_cross_entropy():
    """Split along any dimension; whole where normalize counts over the whole tensor."""
    x, label, weight = np.random.RandomState(0).uniform(0.1, 1, (3, 4, 6)).astype(np.float32)
    label[::2, ::2] = -100
    for normalize in (False, True):
        for placement in (BATCH, dist.Shard(1)):
            for pos_weight in (weight, None):

                def function(x, label, weight, normalize=normalize):
                    return sigmoid_cross_entropy_with_logits(x, label, weight, normalize)

                out = WHOLE if normalize else placement
                given = [placement, WHOLE, placement]
                compare(function, [x, label, pos_weight], given, [0, 2], out, [out] * 3)


def check_double_gradient():
    """Split likewise; where a gradient is not used, Paddle cannot, and an error says so."""
    arrays = np.random.RandomState(1).uniform(0.1, 1, (6, 4, 6)).astype(np.float32)
    mesh = dist.ProcessMesh([0, 1], dim_names=["x"])

    def second(wanted, tensor_of):
        given, cotangents = map(tensor_of, arrays[:3]), map(tensor_of, arrays[3:])
        x, label, weight = given = list(given)
        for i in wanted:
            given[i].stop_gradient = False
        loss = sigmoid_cross_entropy_with_logits(x, label, weight, pos_weight_form="softplus")
        asked = [given[i] for i in wanted]
        grads = paddle.grad([(loss * loss).sum()], asked, create_graph=True)
        sum((g * c).sum() for g, c in zip(grads, cotangents)).backward()
        return [tensor.grad for tensor in asked]

    def split(array):
        return dist.shard_tensor(paddle.to_tensor(array), mesh, [BATCH])

    for got, right in zip(second((0, 1, 2), split), second((0, 1, 2), paddle.to_tensor)):
        assert got.placements == [BATCH]
        assert_close(dist.unshard_dtensor(got).numpy(), right.numpy(), "a second derivative")
    with pytest.raises(ValueError, match="double gradient: expected tensors that are not split"):
        second((0,), split)

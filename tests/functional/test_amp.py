"""paddle.amp.auto_cast: which inputs are cast, and in which types gradients come back.

On the CPU auto_cast turns itself off in dynamic graphs, so `casting` sets what it sets on a GPU.
In the programs of Paddle 3 it is on everywhere.
"""

import contextlib

import numpy as np
import paddle
import pytest
from amp_state import DTYPES, by_paddle, casting, each_dtype, halved, name_of, needs_pir
from deform_cases import NAMES, Case, cotangent, expected, function_of
from modes import static_guard, tensor
from numeric import as_float64, assert_close, rounded_to
from paddle.base import core
from paddle.base.framework import _dygraph_tracer

from paddle_ops import binary_cross_entropy_with_logits as bce
from paddle_ops import deform_conv2d, sigmoid_cross_entropy_with_logits

CASE = Case((2, 4, 5, 6), (6, 3, 2), (1, 2), (1, 0, 1, 1), groups=2, deformable_groups=2)
each_level = pytest.mark.parametrize("level", ["OD", "O1", "O2"])


def run_deform(data, guard):
    """Output and gradients under a guard; the backward runs outside, as in training code."""
    tensors = [tensor(data[name], stop_gradient=False) for name in NAMES]
    with guard:
        out = function_of(CASE.attrs())(*tensors)
    grad_out = paddle.to_tensor(cotangent(data, CASE.attrs())).astype(out.dtype)
    out.backward(grad_out)
    return out, tensors, grad_out


@each_level
@each_dtype
def test_deform_conv2d_casts_all_but_offset_and_mask(level, dtype):
    data = CASE.arrays(np.float32)
    out, tensors, grad_out = run_deform(data, casting(level, dtype))
    right, right_out = expected(halved(data, dtype), CASE.attrs(), grad_out.numpy())
    assert name_of(out) == dtype
    assert_close(out.numpy(), right_out, "out")
    for name, given in zip(NAMES, tensors):
        assert given.grad.dtype == given.dtype == paddle.float32
        got = given.grad.numpy()
        if name in ("x", "weight", "bias"):  # they were half types on the way
            half = rounded_to(as_float64(got), DTYPES[dtype])
            np.testing.assert_array_equal(as_float64(half), as_float64(got))
            assert_close(half, right[name], name)
        else:
            assert_close(got, right[name], name)


@each_dtype
def test_deform_conv2d_of_half_inputs_keeps_wide_offsets(dtype):
    """As in O2, where the parameters are half types already."""
    data = halved(CASE.arrays(np.float32), dtype)
    out, tensors, grad_out = run_deform(data, casting("O2", dtype))
    _, right_out = expected(data, CASE.attrs())
    assert_close(out.numpy(), right_out, "out")
    assert [name_of(given.grad) for given in tensors] == [dtype, "float32", dtype, dtype, "float32"]


def test_offsets_keep_pixels_apart_beyond_1024():
    """In float16 an offset of 1500.5 would be 1500 or 1501."""
    x = np.zeros((1, 1, 1, 1600), np.float32)
    x[..., 1500] = 1
    offset = paddle.to_tensor(np.array([0, 1500.5], np.float32).reshape([1, 2, 1, 1]))
    with casting("O1", "float16"):
        out = deform_conv2d(
            paddle.to_tensor(x), offset, paddle.ones([1, 1, 1, 1]), stride=[1, 1600]
        )
    assert name_of(out) == "float16" and out.item() == 0.5


@pytest.mark.parametrize("name", ["paddle_ops_deform_conv2d", "deformable_conv"])
def test_black_list_keeps_float32(name):
    data = CASE.arrays(np.float32)
    out, *_ = run_deform(data, casting("O2", "float16", [name]))
    plain, *_ = run_deform(data, contextlib.nullcontext())
    assert name_of(out) == "float32"
    np.testing.assert_array_equal(out.numpy(), plain.numpy())


def test_float64_is_left_alone():
    out, tensors, _ = run_deform(CASE.arrays(np.float64), casting("O2", "float16"))
    assert {name_of(value) for value in [out, *(t.grad for t in tensors)]} == {"float64"}


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_auto_cast_on_the_cpu_is_off_in_dynamic_graphs(level):
    with paddle.amp.auto_cast(level=level, dtype="bfloat16"):
        out = function_of(CASE.attrs())(*(tensor(a) for a in CASE.arrays(np.float32).values()))
    assert name_of(out) == "float32"


LOSSES = {
    "sigmoid": lambda x, y, w: sigmoid_cross_entropy_with_logits(x, y, w, normalize=True),
    "mean": lambda x, y, w: bce(x, y, pos_weight=w),
    "none": lambda x, y, w: bce(x, y, weight=w, reduction="none"),
}


@each_level
@each_dtype
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_compute_in_float32(level, dtype, loss):
    """Half logits give bitwise what their float32 values give; gradients have their own types."""
    random = np.random.RandomState(3)
    narrow = rounded_to(random.uniform(-3, 3, (5, 7)), DTYPES[dtype])
    label, weight = random.uniform(0, 1, (2, 5, 7)).astype(np.float32)
    x, wide = tensor(narrow, False), tensor(as_float64(narrow).astype(np.float32), False)
    y, w = tensor(label, False), tensor(rounded_to(weight, DTYPES[dtype]), False)
    with casting(level, dtype):
        got = LOSSES[loss](x, y, w)
        assert _dygraph_tracer()._amp_level == getattr(core.AmpLevel, level)
    right = LOSSES[loss](wide, tensor(label), w.detach().astype("float32"))
    assert name_of(got) == "float32"
    np.testing.assert_array_equal(got.numpy(), right.numpy())
    got.sum().backward()
    right.sum().backward()
    assert [name_of(t.grad) for t in (x, y, w)] == [dtype, "float32", dtype]
    np.testing.assert_array_equal(x.grad.numpy(), by_paddle(wide.grad.numpy(), dtype))


@needs_pir
@pytest.mark.parametrize("level", ["O1", "O2"])
@each_dtype
def test_programs_of_paddle_3(level, dtype):
    """auto_cast while a program is built: the same casts, float32 gradients and losses."""
    data = CASE.arrays(np.float32)
    with static_guard():
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            given = []
            for name in NAMES:
                given.append(paddle.static.data(name, list(data[name].shape), "float32"))
                given[-1].stop_gradient = False
            with paddle.amp.auto_cast(level=level, dtype=dtype):
                out = function_of(CASE.attrs())(*given)
                loss = bce(out, paddle.zeros(out.shape), reduction="none")
            assert [name_of(out), name_of(loss)] == [dtype, "float32"]
            grads = paddle.static.gradients([loss], given)
        executor = paddle.static.Executor(paddle.CPUPlace())
        got, got_loss, *got_grads = executor.run(main, feed=data, fetch_list=[out, loss, *grads])
    _, right = expected(halved(data, dtype), CASE.attrs())
    assert_close(got, right, "out")
    assert_close(got_loss, np.log1p(np.exp(as_float64(got))), "loss")
    for name, grad in zip(NAMES, got_grads):
        assert grad.dtype == np.float32 and np.abs(grad).max() > 0, name

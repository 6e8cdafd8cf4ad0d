"""The one form of message for a caller's mistake, in dynamic and in static mode."""

import numpy as np
import paddle
import pytest

from paddle_ops import _check


def mistake(error, check, *arguments):
    """The message of a check that must fail."""
    with pytest.raises(error) as caught:
        check("op", "arg", *arguments)
    return str(caught.value)


def test_tensor():
    _check.tensor("op", "arg", paddle.ones([1]))
    for other, name in ((np.ones(1), "ndarray"), (None, "NoneType"), ([1.0], "list")):
        assert mistake(TypeError, _check.tensor, other) == f"op: arg: expected a Tensor, got {name}"


@pytest.mark.parametrize(
    "name", "float16 bfloat16 float32 float64 bool uint8 int8 int16 int32 int64".split()
)
def test_dtype(name):
    x = paddle.zeros([2]).astype(name)
    assert _check.dtype_name(x) == name
    _check.dtype("op", "arg", x, ("complex64", name))
    said = mistake(TypeError, _check.dtype, x, ("a", "b", "c"))
    assert said == f"op: arg: expected dtype a, b or c, got {name}"


def test_rank_and_shape():
    x = paddle.ones([2, 3])
    _check.rank("op", "arg", x, 2)
    _check.shape("op", "arg", x, (2, None))
    said = mistake(ValueError, _check.rank, x, 4, "[N, C, H, W]")
    assert said == "op: arg: expected 4 dimensions [N, C, H, W], got shape [2, 3]"
    said = mistake(ValueError, _check.shape, x, (-1, 4), "[N, C]")
    assert said == "op: arg: expected shape [any, 4] [N, C], got [2, 3]"
    assert mistake(ValueError, _check.shape, x, (2, 3, 1)).endswith("shape [2, 3, 1], got [2, 3]")


def test_static_graphs_leave_sizes_open():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [-1, 5], "bfloat16")
        _check.tensor("op", "arg", x)
        assert _check.dtype_name(x) == "bfloat16"
        _check.shape("op", "arg", x, (7, 5))
        said = mistake(ValueError, _check.shape, x, (7, 6))
        assert said == "op: arg: expected shape [7, 6], got [-1, 5]"


def test_choice_and_flag():
    _check.choice("op", "arg", "a", ("a", "b"))
    for wrong in ("c", None, np.array("a"), ["a"]):
        assert mistake(ValueError, _check.choice, wrong, ("a", "b")).startswith(
            "op: arg: expected 'a' or 'b', got "
        )
    assert _check.flag("op", "arg", False) is False
    assert mistake(TypeError, _check.flag, 1) == "op: arg: expected True or False, got 1"


def test_integers():
    assert _check.integer("op", "arg", np.int64(3), 1) == 3
    assert _check.pair("op", "arg", 3) == [3, 3]
    assert _check.pair("op", "arg", (1, np.int32(2))) == [1, 2]
    assert _check.integers("op", "arg", [1, 2, 3, 4], (2, 4)) == [1, 2, 3, 4]
    for wrong in (1.0, True, "1", None, paddle.ones([1])):
        assert mistake(TypeError, _check.integer, wrong).startswith("op: arg: expected an integer")
        assert "an integer or a list of 2 integers" in mistake(TypeError, _check.pair, wrong)
    said = mistake(ValueError, _check.integers, [1, 2, 3], (2, 4))
    assert said == "op: arg: expected an integer or a list of 2 or 4 integers, got [1, 2, 3]"
    assert "at least 1, got 0" in mistake(ValueError, _check.integer, 0, 1)
    assert "at least 1, got 0" in mistake(ValueError, _check.pair, [1, 0], 1)
    # Paddle 2.6 would make 0 of it
    assert "of 32 bits, got 4294967296" in mistake(ValueError, _check.integer, 2**32)

"""The operators among other threads and processes."""

import concurrent.futures
import re

import child
import numpy as np
import paddle
import pytest

import paddle_ops
from paddle_ops import _lib

FORKED = """
import os, sys
import paddle, paddle_ops
x, offset = paddle.ones([1, 8, 40, 41]), paddle.zeros([1, 2, 40, 41])
weight = paddle.ones([4, 8, 1, 1])
assert (paddle_ops.deform_conv2d(x, offset, weight).numpy() == 8).all()  # the parent has a team now
pid = os.fork()
if pid == 0:
    ok = paddle_ops.get_num_threads() == 1
    ok = ok and (paddle_ops.deform_conv2d(x, offset, weight).numpy() == 8).all()
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
assert paddle_ops.get_num_threads() == len(os.sched_getaffinity(0))
"""


def test_a_forked_child_computes_with_one_thread():
    """More may hang: always with libgomp, once in about 1,300 forks with Paddle's libiomp5."""
    child.run(FORKED)


def test_calls_from_many_python_threads_give_the_same_bits():
    paddle.seed(0)
    x, weight = paddle.randn([2, 16, 30, 31]), paddle.randn([24, 16, 3, 3])
    offset = paddle.randn([2, 18, 28, 29])

    def call(_):
        return paddle_ops.deform_conv2d(x, offset, weight).numpy()

    expected = call(0)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for got in pool.map(call, range(32)):
            assert np.array_equal(got, expected)


def test_the_binary_asks_openmp_for_nothing_that_paddles_lacks():
    """GCC's dynamic schedules do: libgomp would serve them, and every thread run the whole loop."""
    library = _lib.library()
    if library is None:
        pytest.skip("the operators come from a library that the package did not load")
    asked = set(re.findall(rb"\bGOMP_\w+", library.read_bytes()))
    assert asked == {b"GOMP_parallel"}

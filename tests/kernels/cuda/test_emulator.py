"""Kernels that are right give the exact result on the emulator: any order, any grid, both ways."""

import numpy as np
import pytest

from kernels.cuda import emulator

pytestmark = [emulator.needs_nvcc, pytest.mark.jit]

FRONT_ENDS = ("ptx", "source")
SETTINGS = {
    "forward": {},
    "reverse": {"order": "reverse"},
    "random": {"order": "random", "seed": 7},
    "other_random": {"order": "random", "seed": 8},
}


@pytest.fixture(scope="module", params=FRONT_ENDS)
def program(request):
    return emulator.build(["programs/correct.cu"], front_end=request.param)


@pytest.fixture(params=SETTINGS)
def configured(request, program):
    with program.configured(**SETTINGS[request.param]):
        yield program


def integers(shape, low=-5, high=6, seed=0):
    """Floats whose sums are exact."""
    return np.random.RandomState(seed).randint(low, high, shape).astype(np.float32)


def test_tiles_in_shared_memory(configured):
    a, b = integers((37, 50)), integers((50, 45), seed=1)
    c = np.full((37, 45), np.nan, np.float32)
    configured.call("launch_product", a, b, c, 37, 45, 50)
    np.testing.assert_array_equal(c, a @ b)


def test_shuffles_and_atomics(configured):
    x, out = integers(1000), np.zeros(1, np.float32)
    configured.call("launch_sum", x, out, x.size)
    assert out[0] == x.sum()


def test_votes_and_shuffles_in_every_direction(configured):
    lane = np.arange(32)
    x = (lane * 7 % 32).astype(np.int32)
    out = np.zeros((32, 8), np.int32)
    configured.call("launch_warp_functions", x, out)
    np.testing.assert_array_equal(out[:, 0], x[(lane + 5) % 32])
    np.testing.assert_array_equal(out[:, 1], x[np.where(lane < 3, lane, lane - 3)])
    np.testing.assert_array_equal(out[:, 2], x[np.where(lane > 28, lane, lane + 3)])
    np.testing.assert_array_equal(out[:, 3], x[lane ^ 9])
    np.testing.assert_array_equal(out[:, 4], x[np.where(lane % 8 == 7, lane, lane + 1)])
    assert (out[:, 5] == sum(1 << i for i in range(32) if x[i] % 3 == 0)).all()
    assert (out[:, 6] == 3).all()
    np.testing.assert_array_equal(out[:, 7], np.where(lane < 16, x[lane ^ 1], 0))


def test_histogram(configured):
    x = np.random.RandomState(0).randint(0, 8, 1000).astype(np.int32)
    counts, weighted = np.zeros(9, np.uint64), np.zeros(8)
    configured.call("launch_histogram", x, counts, weighted, x.size)
    right = np.bincount(x, minlength=8)
    np.testing.assert_array_equal(counts[:8], right)
    np.testing.assert_array_equal(weighted, 0.5 * right)
    assert 0 < counts[8] <= right.max()  # the largest count of one block


def test_one_small_block_does_all_the_work(program):
    x, out = integers(1000), np.zeros(1, np.float32)
    with program.configured(grid=(1,), block=(32,)):
        program.call("launch_sum", x, out, x.size)
    assert out[0] == x.sum()


def test_only_the_chosen_blocks_run(program):
    x, out = np.ones(3 * 128, np.float32), np.zeros(1, np.float32)
    with program.configured(blocks=(1, 1)):
        program.call("launch_sum", x, out, x.size)
    assert out[0] == 128


@pytest.mark.parametrize("blocks, ones", [((-1, -1), 10), ((-2, -1), 138), ((-9, -1), 266)])
def test_blocks_counted_from_the_end(program, blocks, ones):
    x, out = np.ones(2 * 128 + 10, np.float32), np.zeros(1, np.float32)
    with program.configured(blocks=blocks):
        program.call("launch_sum", x, out, x.size)
    assert out[0] == ones


def test_beyond_2_31_elements_on_a_few_pages(program):
    """The last block of a grid that covers 2^31 + 1000 elements."""
    count = 2**31 + 1000
    x, out = emulator.sparse(count, np.float32), np.zeros(1, np.float32)
    x[-10:] = 3
    blocks = -(-count // 128)
    with program.configured(grid=(blocks,), blocks=(blocks - 1, blocks - 1)):
        program.call("launch_sum", x, out, count)
    assert out[0] == 30


def test_launches_are_counted(program):
    before = program.launches()
    program.call("launch_sum", np.ones(5, np.float32), np.zeros(1, np.float32), 5)
    assert program.launches() == before + 1


def test_only_contiguous_arrays(program):
    with pytest.raises(TypeError, match="argument 0: expected a contiguous array"):
        program.call("launch_sum", np.ones(10, np.float32)[::2], np.zeros(1, np.float32), 5)


@pytest.mark.parametrize("front_end", FRONT_ENDS)
@pytest.mark.parametrize("kind", ["half", "bfloat", "tf32"])
def test_tensor_cores_and_asynchronous_copies(front_end, kind):
    program = emulator.build(["programs/tensor.cu"], front_end=front_end)
    a, b = integers((32, 96)), integers((24, 96), seed=1)
    convert = {
        "half": lambda v: v.astype(np.float16),
        "bfloat": lambda v: (v.view(np.uint32) >> 16).astype(np.uint16),
        "tf32": lambda v: v * np.float32(1 + 2**-12),  # below what a tensor core looks at
    }[kind]
    c = np.full((32, 24), np.nan, np.float32)
    with program.configured(order="random"):
        program.call(f"launch_{kind}", convert(a), convert(b), c, 32, 24, 96)
    np.testing.assert_array_equal(c, a @ b.T)


def test_races_are_not_seen_where_there_are_none():
    program = emulator.build(["programs/correct.cu"], front_end="source", sanitize="thread")
    script = """
x, out = np.ones(300, np.float32), np.zeros(1, np.float32)
program.call("launch_sum", x, out, x.size)
assert out[0] == 300
a, c = np.ones((17, 17), np.float32), np.zeros((17, 17), np.float32)
program.call("launch_product", a, a, c, 17, 17, 17)
assert (c == 17).all()
lanes, out = np.arange(32, dtype=np.int32), np.zeros((32, 8), np.int32)
program.call("launch_warp_functions", lanes, out)
labels = np.arange(300, dtype=np.int32) % 8
program.call("launch_histogram", labels, np.zeros(9, np.uint64), np.zeros(8), 300)
print("nothing")
"""
    assert emulator.sanitized(program, script) == "nothing\n"

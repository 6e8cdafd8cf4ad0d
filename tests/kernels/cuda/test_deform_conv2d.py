"""The CUDA kernels of deform_conv2d, run on the CPU, against the float64 reference."""

import numpy as np
import pytest
from deform_cases import CASES, NAMES, Case, expected
from numeric import assert_close, assert_norm, rounded_to

from kernels.cuda import emulator
from kernels.cuda.deform_calls import (
    OP,
    assert_same_bits,
    backward,
    everything,
    forward,
    grad_out_of,
    judge,
    right_of,
)

pytestmark = [emulator.needs_nvcc, pytest.mark.jit]

FLOATING = [np.float32, np.float64, np.float16, np.uint16]
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
each_type = pytest.mark.parametrize("dtype", FLOATING)
# Shapes that reach each tile and each way to cut the work, in a few blocks.
SOME = {
    **{name: CASES[name] for name in ("rectangular", "groups_2_deformable_3", "odd_channels")},
    "many small images": Case((67, 3, 4, 5), (6, 3, 3), (2, 3), (3, 3, 2, 2)),
    "many outputs": Case((1, 20, 9, 11), (130, 3, 2), (1, 1), (1, 0, 1, 1), deformable_groups=2),
    "few channels, many outputs": Case((2, 8, 9, 10), (70, 2, 2), groups=1, deformable_groups=4),
}
some_cases = pytest.mark.parametrize("case", SOME.values(), ids=SOME.keys())


@pytest.fixture(scope="module")
def kernels():
    """With vectors of atomic additions, and tensor cores for half types."""
    return emulator.operator(OP, arch="sm_90")


@pytest.fixture(scope="module")
def older():
    """Without either."""
    return emulator.operator(OP, arch="sm_75")


# -- values ---------------------------------------------------------------------------------------


@each_type
@each_case
def test_against_the_reference(kernels, case, dtype):
    judge(kernels, case, case.arrays(dtype))


@some_cases
@each_type
def test_more_shapes(kernels, case, dtype):
    judge(kernels, case, case.arrays(dtype))


@some_cases
@each_type
def test_a_gpu_without_tensor_cores(older, case, dtype):
    judge(older, case, case.arrays(dtype))


@some_cases
@pytest.mark.parametrize("dtype", [np.float16, np.uint16])
def test_float_offsets_beside_half_types(kernels, case, dtype):
    got = judge(kernels, case, case.arrays(dtype, wide=np.float32))
    assert got["offset"].dtype == got["mask"].dtype == np.float32


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_without_mask_or_bias(kernels, mask, bias):
    case = Case((2, 6, 5, 7), (4, 3, 2), padding=(1, 1, 0, 1), mask=mask, bias=bias)
    judge(kernels, case, case.arrays(np.float64))


@pytest.mark.parametrize("rule", ["paddle", "torchvision"])
@each_type
def test_samples_on_the_border(kernels, rule, dtype):
    """Whole numbers from -2 to one beyond the image, among them -1, where the rules differ."""
    case = Case((2, 5, 3, 4), (3, 2, 3), padding=(1, 1, 1, 1), deformable_groups=5)
    data = case.arrays(dtype)
    data["offset"] = rounded_to(
        np.random.RandomState(5).randint(-2, 3, data["offset"].shape), dtype
    )
    judge(kernels, case, data, attrs={"boundary_grad": rule}, boundary_grad=rule)


@pytest.mark.parametrize("rule", ["paddle", "torchvision"])
@pytest.mark.parametrize("index_bits", [32, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_offsets_that_are_no_numbers_or_huge(kernels, rule, index_bits, dtype):
    case = SOME["rectangular"]
    data = case.arrays(dtype)
    wild = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2147483520, -2147483648, 3e9, 1e19])
    flat = data["offset"].reshape(-1)
    flat[:: flat.size // 40] = np.resize(wild, flat[:: flat.size // 40].shape)
    options = {"boundary_grad": rule, "index_bits": index_bits}
    judge(kernels, case, data, attrs={"boundary_grad": rule}, **options)


def test_values_outside_of_the_image_are_not_read(kernels):
    """Infinities in x do not show where a neighbour outside has their place in the arithmetic."""
    case = Case((1, 4, 3, 3), (2, 1, 1), bias=False)
    data = case.arrays(np.float32)
    data["x"][:, :, 0, 0] = np.inf
    data["offset"][...] = -50
    np.testing.assert_array_equal(forward(kernels, case, data), 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_infinite_values_stay_infinite(kernels, dtype):
    """Sums in two parts, and columns in two parts, could make NaN of them."""
    case = Case((1, 40, 5, 6), (3, 3, 3), padding=(1, 1, 1, 1))
    data = case.arrays(dtype, positive=True)
    data["x"][0, 3, 2, 2] = np.inf
    _, right = expected(data, case.attrs())
    assert np.isinf(right).any() and np.isfinite(right).any() and not np.isnan(right).any()
    assert_close(forward(kernels, case, data), right, "out")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", [CASES["groups_2_deformable_3"], SOME["many outputs"]])
def test_one_gradient_alone(kernels, case, name):
    data = case.arrays(np.float32)
    grad_out = grad_out_of(case, np.float32)
    together = backward(kernels, case, data, grad_out, deterministic=True)
    before = kernels.program.launches()
    alone = backward(kernels, case, data, grad_out, wanted=[name], deterministic=True)
    assert_same_bits(alone, together, [name])
    # the others' kernels do not run
    most = {"x": 4, "offset": 3, "weight": 3, "bias": 2, "mask": 3}[name]
    assert kernels.program.launches() - before == most


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_no_image(kernels, dtype):
    case = Case((0, 3, 4, 5), (2, 2, 2))
    data = case.arrays(dtype)
    got = everything(kernels, case, data)
    assert got["out"].shape == (0, 2, 3, 4)
    for name in ("weight", "bias"):
        np.testing.assert_array_equal(got[name], 0)


# -- accuracy -------------------------------------------------------------------------------------


def test_a_long_sum_over_channels(kernels):
    """27,000 terms of one sign: a plain float sum is off by more than is allowed."""
    case = Case((1, 3000, 3, 4), (2, 3, 3), padding=(1, 1, 1, 1), bias=False)
    data = case.arrays(np.float32, positive=True)
    right = right_of(case, data)
    got = everything(kernels, case, data)
    for name in right:
        assert_norm(got[name], right[name], name)


def test_a_long_sum_over_outputs(kernels):
    case = Case((1, 2, 4, 3), (40000, 1, 1), bias=False)
    data = case.arrays(np.float32, positive=True)
    grad_out = rounded_to(np.abs(grad_out_of(case, np.float32)), np.float32)
    right, _ = expected(data, case.attrs(), grad_out)
    got = backward(kernels, case, data, grad_out)
    for name in ("x", "offset", "mask"):
        assert_norm(got[name], right[name], name)


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 1500, 2, 3), (2, 3, 3), padding=(2, 2, 2, 2), mask=False, bias=False),
        Case((1, 2, 3, 4), (40000, 1, 1), mask=False, bias=False),
        Case((3, 1, 130, 140), (2, 1, 1), mask=False, bias=False),
    ],
    ids=["channels", "outputs", "pixels"],
)
def test_long_sums_of_equal_terms(kernels, case):
    """Every rounding goes the same way: blocks that are only added are off by 9e-6."""
    worst = np.float32(1.1154842)  # of many that were tried
    data = case.arrays(np.float32)
    for name, value in {"x": 1, "offset": 0, "weight": worst}.items():
        data[name] = np.full_like(data[name], value)
    grad_out = np.full_like(grad_out_of(case, np.float32), 1)
    right, out = expected(data, case.attrs(), grad_out)
    assert_norm(forward(kernels, case, data), out, "out")
    assert_norm(backward(kernels, case, data, grad_out, ["x"])["x"], right["x"], "x")
    grad_out *= worst
    right, _ = expected(data, case.attrs(), grad_out)
    got = backward(kernels, case, data, grad_out, ["weight"])
    assert_norm(got["weight"], right["weight"], "weight")


@pytest.mark.parametrize("scratch_bytes", [0, 1 << 20])
def test_a_long_sum_over_pixels(kernels, scratch_bytes):
    case = Case((3, 1, 200, 210), (2, 1, 1), mask=False)
    data = case.arrays(np.float32, positive=True)
    grad_out = rounded_to(np.abs(grad_out_of(case, np.float32)), np.float32)
    right, _ = expected(data, case.attrs(), grad_out)
    got = backward(
        kernels, case, data, grad_out, wanted=("weight", "bias"), scratch_bytes=scratch_bytes
    )
    for name in got:
        assert_norm(got[name], right[name], name)


# -- how the work is cut --------------------------------------------------------------------------

ORDERS = [{"order": "reverse"}, {"order": "random", "seed": 1}, {"grid": (1,)}, {"grid": (3,)}]


@some_cases
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_index_width_order_and_grid(kernels, case, dtype):
    """Only grad_x depends on them, by the order of its atomic additions."""
    data = case.arrays(dtype)
    usual = everything(kernels, case, data, index_bits=32)
    same = [name for name in usual if name != "x"]
    assert_same_bits(usual, judge(kernels, case, data, index_bits=64), same)
    for how in ORDERS:
        with kernels.program.configured(**how):
            assert_same_bits(usual, judge(kernels, case, data), same)


@some_cases
@each_type
def test_deterministic(kernels, case, dtype):
    data = case.arrays(dtype)
    usual = judge(kernels, case, data, deterministic=True)
    assert_same_bits(usual, everything(kernels, case, data, deterministic=True, index_bits=64))
    for how in ORDERS:
        with kernels.program.configured(**how):
            assert_same_bits(usual, everything(kernels, case, data, deterministic=True))


def test_atomic_additions_are_not(kernels):
    """What the test above compares can differ: without the flag it does."""
    case = SOME["odd_channels"]
    data = case.arrays(np.float32)
    usual = everything(kernels, case, data)
    with kernels.program.configured(order="reverse"):
        other = everything(kernels, case, data)
    assert usual["x"].tobytes() != other["x"].tobytes()


@some_cases
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("scratch_bytes", [1, 5000, 100000])
def test_chunks_of_images(kernels, case, deterministic, scratch_bytes):
    data = case.arrays(np.float32)
    options = {"scratch_bytes": scratch_bytes, "deterministic": deterministic}
    got = judge(kernels, case, data, **options)
    with kernels.program.configured(order="random", seed=2):
        again = everything(kernels, case, data, **options)
    assert_same_bits(got, again, None if deterministic else [n for n in got if n != "x"])


def test_many_images_take_few_launches(kernels):
    case = Case((300, 3, 3, 2), (4, 2, 2), padding=(1, 1, 1, 1))
    data = case.arrays(np.float32)
    before = kernels.program.launches()
    judge(kernels, case, data)
    # forward: weights, layout, product; backward: bias twice, weights, layout, data, layout back,
    # grad_weight twice
    assert kernels.program.launches() - before == 3 + 8


def test_scratch_memory_is_bounded(kernels):
    """Table S of the benchmark: what is asked for, plus the packed weights and the partial sums."""
    for x, o, kernel in [
        ((8, 512, 20, 20), 512, 3),
        ((446, 128, 200, 200), 128, 3),
        ((79220, 3, 4, 4), 6, 3),
        ((1, 64, 64, 64), 64, 7),
    ]:
        sizes = {"x": x, "weight": (o, x[1], kernel, kernel), "oh": x[2], "ow": x[3]}
        for direction in (False, True):
            used = kernels.deform_conv2d_workspace_bytes(direction, **sizes)
            weights = 4 * o * x[1] * kernel * kernel
            assert used < (256 << 20) + (64 << 20) + 4 * weights, (x, direction)


def test_scratch_memory_from_the_environment(kernels, monkeypatch):
    case = Case((90, 3, 31, 30), (4, 1, 1))
    data = case.arrays(np.float32)
    sizes = {"x": case.x, "weight": (4, 3, 1, 1), "oh": 31, "ow": 30}

    def used():
        return [kernels.deform_conv2d_workspace_bytes(b, **sizes) for b in (False, True)]

    usual = used()
    for value in ("many", "0", "-3", "", "4096", "99999999999999"):
        monkeypatch.setenv("PADDLE_OPS_GPU_SCRATCH_MB", value)
        assert used() == usual, value
    monkeypatch.setenv("PADDLE_OPS_GPU_SCRATCH_MB", "1")  # of 1.3 MB forward, more backward
    assert all(less < more for less, more in zip(used(), usual))
    before = kernels.program.launches()
    judge(kernels, case, data)
    # a second chunk takes two launches more forward and four backward
    assert kernels.program.launches() - before > 3 + 8 + 6


def test_the_host_never_waits(kernels):
    case = SOME["rectangular"]
    waits = kernels.program.waits()
    everything(kernels, case, case.arrays(np.float32), deterministic=True)
    assert kernels.program.waits() == waits


# -- sanitizers -----------------------------------------------------------------------------------

# No Paddle in the process, which the sanitizers would watch too: hence shapes without Case.
SCRIPT = """
kernels = program.module()
random = np.random.RandomState(0)
# x, weight, stride, padding, groups, deformable groups, out
for n, c, h, w, o, k, groups, deformable, stride, oh, ow in SHAPES:
    taps = deformable * k * k
    shapes = {"x": (n, c, h, w), "offset": (n, 2 * taps, oh, ow), "mask": (n, taps, oh, ow),
              "weight": (o, c // groups, k, k), "bias": (o,), "out": (n, o, oh, ow)}
    options = {"groups": groups, "deformable_groups": deformable, "strides": [stride, 1],
               "paddings": [1, 1, 1, 1]}
    for dtype in DTYPES:
        data = {name: random.uniform(-2, 2, shapes[name]).astype(dtype) for name in shapes}
        data["offset"].reshape(-1)[::7] = np.nan
        with program.configured(grid=GRID):
            kernels.deform_conv2d_forward(**data, **options)
        assert np.isfinite(data["out"]).all()
        bias, grad_out = data.pop("bias"), data.pop("out")
        grads = {f"grad_{name}": np.zeros_like(data[name]) for name in data}
        grads["grad_bias"] = np.zeros_like(bias)
        for deterministic in (False, True):
            with program.configured(grid=GRID):
                kernels.deform_conv2d_backward(
                    grad_out=grad_out, deterministic=deterministic, scratch_bytes=SCRATCH,
                    **data, **grads, **options)
            assert all(np.isfinite(grad).all() for grad in grads.values())
print("nothing")
"""
PLAIN = (2, 5, 6, 7, 9, 3, 1, 1, 2, 3, 7)
SANITIZED = {
    "address": {
        "DTYPES": "[np.float32, np.float64, np.float16]",
        "SHAPES": [PLAIN, (5, 6, 4, 5, 4, 2, 2, 3, 1, 5, 6), (1, 20, 9, 8, 70, 3, 1, 1, 1, 9, 8)],
        "SCRATCH": 1000,
        "GRID": (0,),
    },
    # ThreadSanitizer takes a while to start each thread. The pixels are those of two warps.
    "thread": {
        "DTYPES": "[np.float32]",
        "SHAPES": [(1, 2, 5, 7, 2, 2, 1, 1, 1, 6, 8)],
        "SCRATCH": 0,
        "GRID": (1,),
    },
}


@pytest.mark.parametrize("sanitize", SANITIZED)
def test_sanitizers(sanitize):
    program = emulator.operator_program(OP, front_end="source", sanitize=sanitize)
    script = SCRIPT
    for name, value in SANITIZED[sanitize].items():
        script = script.replace(name, str(value))
    assert emulator.sanitized(program, script) == "nothing\n"

"""The kernels without Paddle: index widths, instruction sets, threads, scratch, long shapes."""

import numpy as np
import pytest
from deform_cases import Case
from numeric import assert_norm
from reference import deform_conv2d as reference
from reference.deform_conv2d import four

from paddle_ops import _lib

KERNELS = _lib.kernels()
TARGETS = ("baseline", "avx2", "avx512")
INT32_MAX = 2**31 - 1  # a prime: only a single size can reach it

CASES = {
    "plain": Case((2, 5, 7, 9), (6, 3, 2), stride=(2, 1), padding=(1, 0, 2, 1)),
    "groups": Case((2, 12, 6, 8), (8, 2, 3), groups=4, deformable_groups=3, padding=(1, 1, 0, 2)),
    "vectors": Case((1, 70, 9, 11), (33, 3, 3), padding=(1, 1, 1, 1), dilation=(1, 2)),
    "many small images": Case((67, 3, 4, 5), (6, 3, 3), stride=(2, 3), padding=(3, 3, 2, 2)),
    "many slabs": Case((2, 2100, 3, 2), (5, 3, 3), padding=(1, 1, 1, 1)),
    "large kernel": Case((1, 20, 12, 15), (7, 9, 11), padding=(4, 4, 5, 5)),
    "one channel each": Case((2, 8, 5, 6), (16, 2, 2), groups=8, deformable_groups=8),
    "one output each": Case((1, 150, 5, 6), (150, 3, 2), groups=150, deformable_groups=3),
    "kernel over a panel": Case((1, 2, 25, 28), (3, 24, 25), padding=(1, 1, 0, 0), stride=(1, 2)),
    "groups of many outputs": Case((2, 12, 6, 8), (80, 2, 3), groups=4, deformable_groups=3),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def options_of(case):
    return {
        "strides": list(case.stride),
        "paddings": list(four(case.padding)),
        "dilations": list(case.dilation),
        "groups": case.groups,
        "deformable_groups": case.deformable_groups,
    }


def run(case, arrays, **options):
    """{name: array}: out, and the gradients for an output gradient of cos(0, 1, 2, ...)."""
    out = np.full((case.x[0], case.kernel[0], *case.output_size()), np.nan, arrays["x"].dtype)
    inputs = {name: arrays[name] for name in ("x", "offset", "weight", "mask")}
    options = {**options_of(case), **options}
    KERNELS.deform_conv2d_forward(out=out, **inputs, bias=arrays["bias"], **options)
    results = {name: np.full_like(value, np.nan) for name, value in arrays.items()}
    KERNELS.deform_conv2d_backward(
        grad_out=grad_out_of(out),
        **inputs,
        **{f"grad_{name}": value for name, value in results.items()},
        **options,
    )
    return {"out": out, **results}


def grad_out_of(out):
    return np.cos(np.arange(out.size)).reshape(out.shape).astype(out.dtype)


def expected_of(case, arrays):
    out = reference.forward(**arrays, **case.attrs())
    grad_out = grad_out_of(out.astype(arrays["x"].dtype))
    return {"out": out, **reference.backward(grad_out, **arrays, **case.attrs())}


def assert_identical(got, expected):
    for name in expected:
        assert got[name].tobytes() == expected[name].tobytes(), name


@each_case
@pytest.mark.parametrize("target", TARGETS)
def test_every_instruction_set_gives_the_reference(case, target, monkeypatch):
    monkeypatch.setenv("PADDLE_OPS_TARGET", target)
    arrays = case.arrays(np.float32)
    got = run(case, arrays)
    for name, expected in expected_of(case, arrays).items():
        assert_norm(got[name], expected, f"{target}: {name}")


@each_case
def test_index_widths_agree_bitwise(case):
    arrays = case.arrays(np.float32)
    assert_identical(run(case, arrays, index_bits=64), run(case, arrays, index_bits=32))


@each_case
def test_thread_counts_agree_bitwise(case):
    arrays = case.arrays(np.float32)
    expected = run(case, arrays, num_threads=1)
    for threads in (2, 3, 5, 16):
        assert_identical(run(case, arrays, num_threads=threads), expected)


def test_an_image_gets_the_same_wherever_it_stands_in_the_batch():
    """Bitwise; its tiles and sums do not depend on its neighbours. 143 pixels: two tiles' worth."""
    for case in (
        CASES["many small images"],
        Case((13, 4, 11, 13), (6, 3, 3), padding=(1, 1, 1, 1)),
    ):
        arrays = case.arrays(np.float32)
        n = case.x[0]
        for name in ("x", "offset", "mask"):
            arrays[name][n // 2] = arrays[name][n - 1] = arrays[name][0]
        out = np.empty((n, case.kernel[0], *case.output_size()), np.float32)
        grad_out = grad_out_of(out)
        grad_out[n // 2] = grad_out[n - 1] = grad_out[0]
        inputs = {name: arrays[name] for name in ("x", "offset", "weight", "mask")}
        grads = {f"grad_{name}": np.empty_like(arrays[name]) for name in ("x", "offset", "mask")}
        KERNELS.deform_conv2d_forward(out=out, **inputs, **options_of(case))
        KERNELS.deform_conv2d_backward(grad_out=grad_out, **inputs, **grads, **options_of(case))
        for name, value in {"out": out, **grads}.items():
            for image in (n // 2, n - 1):
                assert value[image].tobytes() == value[0].tobytes(), (name, image)


def test_raw_pointers_are_taken_too():
    case = CASES["plain"]
    arrays = case.arrays(np.float32)
    expected = run(case, arrays)["out"]
    out = np.empty_like(expected)

    def pointer(array):
        return (array.ctypes.data, str(array.dtype), list(array.shape))

    inputs = {name: pointer(array) for name, array in arrays.items()}
    KERNELS.deform_conv2d_forward(out=pointer(out), **inputs, **options_of(case))
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("argument", "change", "error"),
    [
        ("offset", lambda a: a[:1], ValueError),
        ("mask", lambda a: a[:, :-1].copy(), ValueError),
        ("x", lambda a: a[..., ::2], ValueError),
        ("x", lambda a: a[0], ValueError),
        ("weight", lambda a: a.astype(np.complex64), TypeError),
    ],
)
def test_arrays_that_do_not_fit_are_refused(argument, change, error):
    case = CASES["plain"]
    arrays = case.arrays(np.float32)
    arrays[argument] = change(arrays[argument])
    with pytest.raises(error, match=argument):
        run(case, arrays)


# Sizes whose only large quantity is the one named, as a function of that quantity's count.
QUANTITIES = {
    "x": lambda count: {"w": count},
    "x's padded width": lambda count: {"w": 5, "pad_left": count - 5},
    "x's padded height": lambda count: {"h": 5, "pad_top": count - 5},
    "weight": lambda count: {"o": count},
    "columns": lambda count: {"c": count},
    "offset": lambda count: {"n": 1, "oh": (count + 1) // 2},
    "out": lambda count: {"o": 3, "n": (count + 2) // 3},
    "kernel rows": lambda count: {"oh": 2, "stride_h": count},
    "kernel columns": lambda count: {"kw": 2, "dilation_w": count},
}


def fits(**sizes):
    ones = dict.fromkeys(("n", "c", "h", "w", "o", "kh", "kw", "oh", "ow"), 1)
    return KERNELS.deform_conv2d_fits_int32(**{**ones, **sizes})


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_dispatcher_changes_at_two_to_the_31(quantity):
    sizes_of = QUANTITIES[quantity]
    below = INT32_MAX - 1 if quantity in ("offset", "out") else INT32_MAX
    assert fits(**sizes_of(below))
    assert not fits(**sizes_of(2**31))


def workspace(backward, n, threads, c=128, side=40):
    return KERNELS.deform_conv2d_workspace_bytes(
        backward=backward,
        x=[n, c, side, side + 8],
        weight=[96, c, 3, 3],
        oh=side,
        ow=side + 8,
        num_threads=threads,
    )


def test_forward_scratch_is_one_copy_of_x_whatever_the_batch():
    """Beside the copy: packed weights, and at most 8 MB a thread. Never the column matrix."""
    c, side, mega = 128, 40, 2**20
    image, packed = 4 * c * side * (side + 8), 4 * 96 * c * 9
    in_flight = max(image, 8 * mega)
    for n in (1, 8, 512):
        for threads in (1, 2, 8):
            limit = in_flight + packed + threads * 8 * mega
            assert workspace(False, n, threads) <= limit
            assert workspace(True, n, threads) <= 2 * (limit + packed + 16 * mega)
    assert workspace(False, 512, 2) < 1.01 * workspace(False, 8, 2)


@pytest.mark.parametrize("target", ["baseline", "avx512"], ids=["usual", "few outputs"])
def test_channels_that_exceed_one_pass_are_carried_over(target, monkeypatch):
    """So many weights that they are packed in several passes, over groups that do not divide.

    Five outputs a group are few beside 16 lanes, but not beside 4.
    """
    monkeypatch.setenv("PADDLE_OPS_TARGET", target)
    case = Case((2, 900_000, 1, 1), (10, 3, 3), groups=2, padding=(1, 1, 1, 1), bias=True)
    arrays = {n: np.zeros(s, np.float32) for n, s in case.shapes().items()}
    random = np.random.RandomState(0)
    touched = random.permutation(900_000)[:300]
    arrays["x"][:, touched] = random.uniform(-1, 1, (2, 300, 1, 1))
    arrays["weight"][...] = random.uniform(-1, 1, (10, 1, 3, 3))
    arrays["mask"][...] = random.uniform(0, 1, arrays["mask"].shape)
    arrays["bias"][...] = np.arange(10)
    out = np.empty((2, 10, 1, 1), np.float32)
    KERNELS.deform_conv2d_forward(out=out, **arrays, **options_of(case))
    centre = arrays["weight"][:, 0, 1, 1].astype(np.float64)
    sums = arrays["x"][:, :, 0, 0].reshape(2, 2, -1).astype(np.float64).sum(axis=2)
    mask = arrays["mask"][:, 4, 0, 0].astype(np.float64)
    expected = np.repeat(sums, 5, axis=1) * centre * mask[:, None] + np.arange(10)
    assert_norm(out, expected[:, :, None, None], "out")


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_types_round_once_to_the_nearest_even(kind):
    """Sums that are exact in float32, from subnormals to beyond the largest number: to the bit."""
    random = np.random.RandomState(0)
    scale = np.repeat(np.float32(2) ** np.arange(-26, 18), 64)
    values = random.choice([-1, 1], (2, scale.size)) * random.randint(1, 64, (2, scale.size))
    values[0] *= 64  # 12 bits apart together: more than either half type holds
    values = np.clip((values * scale).astype(np.float32), -6e4, 6e4).astype(np.float16)
    sums = values.astype(np.float32).sum(axis=0)
    if kind == "bfloat16":
        values = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        wide = (values.astype(np.uint32) << 16).view(np.float32)
        bits = (wide[0] + wide[1]).view(np.uint32)
        expected = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        one = np.uint16(0x3F80)
    else:
        with np.errstate(over="ignore"):
            expected = sums.astype(np.float16)
        one = np.float16(1)
    out = np.empty((1, 1, 1, scale.size), values.dtype)
    KERNELS.deform_conv2d_forward(
        out=out,
        x=np.ascontiguousarray(values.reshape(1, 2, 1, -1)),
        offset=np.zeros((1, 2, 1, scale.size), np.float32),
        weight=np.full((1, 2, 1, 1), one, values.dtype),
    )
    assert out.tobytes() == expected.tobytes()

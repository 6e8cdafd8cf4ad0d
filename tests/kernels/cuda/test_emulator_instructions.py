"""What nvcc makes of arithmetic, on the emulator, beside the same in NumPy."""

import math

import numpy as np
import pytest

from kernels.cuda import emulator

pytestmark = [emulator.needs_nvcc, pytest.mark.jit]

COUNT = 500


@pytest.fixture(scope="module")
def program():
    return emulator.build(["programs/instructions.cu"])


def rows_of(program, function, a, b, rows):
    out = np.zeros((rows, a.size), a.dtype)
    program.call(function, a, b, out, a.size)
    return out


def assert_rows(got, right, exact):
    """`exact` many rows must agree to the bit, the others to a few units in the last place."""
    for i, (row, expected) in enumerate(zip(got, right)):
        if i in exact:
            np.testing.assert_array_equal(row, expected, err_msg=f"row {i}")
        else:
            np.testing.assert_allclose(
                row, expected, rtol=8 * np.finfo(got.dtype).eps, err_msg=f"row {i}"
            )
    assert len(got) == len(right)


def special(dtype):
    """Numbers of all sizes, with infinities, NaN and zeros of both signs among them."""
    random = np.random.RandomState(0)
    a = random.normal(0, 1, COUNT) * 10.0 ** random.randint(-5, 6, COUNT)
    b = random.uniform(-4, 4, COUNT)
    a[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, 2.5, -2.5]
    b[4:9] = [1.0, np.nan, -0.0, 3.0, a[8]]
    return a.astype(dtype), b.astype(dtype)


def erf(values):
    return np.vectorize(math.erf)(values.astype(np.float64)).astype(values.dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floats(program):
    x, y = special(np.float32)
    wide = np.float64
    right = [
        x + y,
        x - y,
        x * y,
        x / y,
        (x.astype(wide) * y + x).astype(np.float32),
        np.sqrt(np.abs(x)),
        np.floor(x),
        np.ceil(x),
        np.trunc(x),
        np.rint(x),
        np.fmin(x, y),
        np.fmax(x, y),
        np.copysign(x, y),
        np.abs(x),
        -x,
        np.nan_to_num(np.clip(x, 0, 1), nan=0),
        np.exp(y),
        np.log(np.abs(x)),
        np.sin(y),
        np.tanh(y),
        x > y,
        x != y,
        ~(x < y),
        np.isnan(x),
        1 / np.sqrt(np.abs(y)),
        erf(y),
        np.abs(y) ** np.float32(1.5),
    ]
    got = rows_of(program, "launch_floats", x, y, len(right))
    assert_rows(got, right, exact={*range(16), *range(20, 24)})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_doubles(program):
    x, y = special(np.float64)
    x[2:5] = [1e15 + 0.5, -1e15 - 0.5, 7.0]  # conversions of what is no integer saturate
    right = [
        x + y,
        x / y,
        (x.astype(np.longdouble) * y + x).astype(np.float64),
        np.sqrt(np.abs(x)),
        np.floor(x),
        np.fmin(x, y),
        np.exp(y),
        np.log(np.abs(x)),
        x.astype(np.float32).astype(np.float64),
        np.rint(x),
        np.clip(np.trunc(x), -(2.0**31), 2.0**31 - 1),
        np.trunc(x) * 3,
    ]
    got = rows_of(program, "launch_doubles", x, y, len(right))
    assert_rows(got, right, exact={0, 1, 3, 4, 5, 8, 9, 10, 11})


def bits_of(value, bits):
    return [value >> i & 1 for i in range(bits)]


def signed(values, bits):
    return [(v & (2**bits - 1)) - (2**bits if v >> (bits - 1) & 1 else 0) for v in values]


def truncated(x, y):
    """C's division, which rounds to zero."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def word_rows(x, y):
    ux, uy = x & 0xFFFFFFFF, y & 0xFFFFFFFF
    shift = uy & 31
    bytes_ = [(uy << 32 | ux) >> 8 * n & 255 for n in range(8)]
    ones = bits_of(ux, 32)
    return [
        ux + uy,
        ux - uy,
        ux * uy,
        0 if y == 0 else truncated(x, y | 1),
        ux % (uy | 1),
        ux & uy,
        ux | uy,
        ux ^ uy,
        ~ux,
        ux << shift,
        x >> shift,
        ux >> shift,
        min(x, y),
        max(ux, uy),
        x * y >> 32,
        ux * uy >> 32,
        sum(ones),
        32 - ux.bit_length(),
        int("".join(map(str, ones)), 2),
        ones.index(1) + 1 if ux else 0,
        bytes_[0] | bytes_[4] << 8 | bytes_[2] << 16 | bytes_[6] << 24,
        (uy << 32 | ux) << shift >> 32,
        (uy << 32 | ux) >> shift,
        signed([ux >> 24 & 31], 5)[0],
        (ux << 7 & 0xFFFFFFFF) >> 20,
        signed([ux & 0xFFFF], 16)[0],
        uy & 255,
        int(x < y),
        int(ux < uy),
        int(np.float32(x) * np.float32(0.5)),
    ]


def test_words(program):
    random = np.random.RandomState(0)
    a, b = (random.randint(-(2**31), 2**31, COUNT).astype(np.int32) for _ in range(2))
    a[:4], b[:4] = [0, -1, 2**31 - 1, 7], [0, 3, -1, 7]
    right = [signed(word_rows(int(x), int(y)), 32) for x, y in zip(a, b)]
    got = rows_of(program, "launch_words", a, b, len(right[0]))
    np.testing.assert_array_equal(got.T, right)


def long_rows(x, y):
    ux, uy = x & (2**64 - 1), y & (2**64 - 1)
    shift = uy & 63
    ones = bits_of(ux, 64)
    return [
        ux + uy,
        ux * uy,
        truncated(x, y | 1),
        ux % (uy | 1),
        ux << shift,
        x >> shift,
        x * y >> 64,
        ux * uy >> 64,
        sum(ones),
        64 - ux.bit_length(),
        int("".join(map(str, ones)), 2),
        int(x < y),
        signed([ux], 32)[0] * signed([uy], 32)[0],
        min(x, y),
    ]


def test_long_words(program):
    random = np.random.RandomState(0)
    a, b = (random.randint(-(2**63), 2**63 - 1, COUNT, dtype=np.int64) for _ in range(2))
    a[:3], b[:3] = [0, -1, 5], [3, 4, 5]
    right = [signed(long_rows(int(x), int(y)), 64) for x, y in zip(a, b)]
    got = rows_of(program, "launch_long_words", a, b, len(right[0]))
    np.testing.assert_array_equal(got.T, right)


def to_bfloat(values):
    """float64 to the bits of the nearest bfloat16, as an exact search would find it."""
    fraction, exponent = np.frexp(values)
    rounded = np.ldexp(np.rint(np.ldexp(fraction, 8)), exponent - 8).astype(np.float32)
    return (rounded.view(np.uint32) >> 16).astype(np.uint16)


def from_bfloat(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("kind", ["halves", "bfloats"])
def test_halves(program, kind):
    random = np.random.RandomState(0)
    values = [random.uniform(-8, 8, COUNT) * 2.0 ** random.randint(-5, 5, COUNT) for _ in "ab"]
    if kind == "halves":
        a, b = (v.astype(np.float16) for v in values)
        x, y = a.astype(np.float64), b.astype(np.float64)
        narrow = np.float16
    else:
        a, b = map(to_bfloat, values)
        x, y = (from_bfloat(v).astype(np.float64) for v in (a, b))
        narrow = to_bfloat
    right = [x + y, x * y, x * y + x, np.maximum(x, y), -x, np.where(x < y, x, y), 2 * x, 2 * y]
    got = rows_of(program, f"launch_{kind}", a, b, len(right))
    np.testing.assert_array_equal(got, np.stack([narrow(row) for row in right]))


def test_conversions_to_halves_and_back(program):
    every_half = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = np.nextafter(every_half, np.float32(0))
    random = np.random.RandomState(0).randint(0, 2**32, 2**15, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        x = np.concatenate([every_half, between, random])
        halves = x.astype(np.float16)
        bits = x.view(np.uint32).astype(np.uint64)
    half, bfloat = np.zeros(x.size, np.float16), np.zeros(x.size, np.uint16)
    back = np.zeros((2, x.size), np.float32)
    program.call("launch_conversions", x, half, bfloat, back, x.size)
    np.testing.assert_array_equal(half, halves)
    number = ~np.isnan(x)
    nearest = (bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    np.testing.assert_array_equal(bfloat[number], nearest[number])
    assert np.isnan(from_bfloat(bfloat[~number])).all()
    np.testing.assert_array_equal(back[0], half.astype(np.float32))
    np.testing.assert_array_equal(back[1], from_bfloat(bfloat))


def test_control_flow_parameters_and_variables(program):
    x = (np.arange(64) % 9).astype(np.int32)
    before = np.arange(100, 164, dtype=np.int32)
    out, count = before.copy(), np.zeros(1, np.int32)
    program.call("launch_control", x, out, count)
    i = np.arange(64)
    by_case = {
        0: np.full(64, 7),
        1: 3 + before,
        2: np.array([3, 1, 4, 1, 5])[i % 5],
        3: 3 * (i * 5 % 9),
        4: np.array([10, 20, 30])[i % 3],
        5: (2.5 * i).astype(int),
        6: before << 3,
    }
    right = [by_case[v][n] if v in by_case else -1 for n, v in enumerate(x)]
    np.testing.assert_array_equal(out, right)
    assert count[0] == 5 + 64


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("order", emulator.ORDERS)
def test_atomics(arch, order):
    program = emulator.build(["programs/instructions.cu"], arch=arch)
    out = np.array([5, 5000, 400, 3, 0xFFFFFFFF, 0, 1, 3, 3, 0], np.uint32)
    sums, pair = np.zeros(10, np.float32), np.zeros(2, np.float16)
    with program.configured(order=order, seed=2):
        program.call("launch_atomics", out, sums, pair)
    i = np.arange(96)
    total = i.sum()
    right = [5 + total, 5000 - total, min(i ^ 21), max(i ^ 21), 0xFFFFFFFF & ~127, 127]
    right += [1 ^ np.bitwise_xor.reduce(i * 77), (3 + 96) % 10, (3 - 96) % 10, total]
    np.testing.assert_array_equal(out, np.array(right, np.uint32))
    assert sums[0] == 0.25 * total
    np.testing.assert_array_equal(pair, [96, 192])
    vectors = [96, 192, 288, 384, 480, 576] if arch == "sm_90" else [0] * 6
    np.testing.assert_array_equal(sums[4:], vectors)

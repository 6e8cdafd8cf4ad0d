"""Comparison of arrays, conversion of half types, and central differences, in NumPy only."""

import numpy as np
import tolerances


def bfloat16_bits(values):
    """Rounds to the nearest bfloat16, ties to even, once from float64; returns uint16 bits."""
    values = np.asarray(values, dtype=np.float64)
    single = values.astype(np.float32)
    # Round to odd: what float32 dropped must still decide a bfloat16 tie.
    bits = single.view(np.uint32)
    inexact = np.isfinite(values) & (single.astype(np.float64) != values)
    toward = np.abs(single.astype(np.float64)) > np.abs(values)
    truncated = np.where(inexact & toward, bits - np.uint32(1), bits)
    odd = np.where(inexact, truncated | np.uint32(1), bits).astype(np.uint64)
    rounded = (odd + np.uint64(0x7FFF) + ((odd >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    nan = np.isnan(values)
    return np.where(nan, np.uint64(0x7FC0), rounded).astype(np.uint16)


def bfloat16_values(bits):
    """float32 values of bfloat16 bits."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def as_float64(array):
    """float64 values of any array; uint16 is bfloat16."""
    array = np.asarray(array)
    return (bfloat16_values(array) if array.dtype == np.uint16 else array).astype(np.float64)


def rounded_to(values, dtype):
    """`values` correctly rounded to `dtype` (uint16: bfloat16)."""
    if np.dtype(dtype) == np.uint16:
        return bfloat16_bits(values)
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float64).astype(dtype)


def ulp(values, dtype):
    """Spacing of `dtype` at each value, float64."""
    if np.dtype(dtype) == np.uint16:
        exponent = np.floor(np.log2(np.maximum(np.abs(values), 2.0**-126)))
        return 2.0 ** (exponent - 7)
    exact = np.abs(np.asarray(values)).astype(dtype)
    return np.spacing(np.maximum(exact, np.finfo(dtype).tiny)).astype(np.float64)


def assert_same_kind(got, expected, what):
    """Shape and dtype are the expected ones; NaN and infinities lie at the same places."""
    assert got is not None, f"{what}: missing (None)"
    assert got.shape == expected.shape, f"{what}: expected shape {expected.shape}, got {got.shape}"
    assert got.dtype == expected.dtype, f"{what}: expected {expected.dtype}, got {got.dtype}"
    got, expected = as_float64(got), as_float64(expected)
    for kind, test in (("NaN", np.isnan), ("+Inf", np.isposinf), ("-Inf", np.isneginf)):
        wrong = np.argwhere(test(got) != test(expected))
        assert wrong.size == 0, (
            f"{what}: {kind} misplaced at {tuple(wrong[0])}: expected "
            f"{expected[tuple(wrong[0])]}, got {got[tuple(wrong[0])]}"
        )


def finite_pair(got, expected):
    """Both arrays in float64 with the (equal) non-finite elements taken out."""
    got, expected = as_float64(got).ravel(), as_float64(expected).ravel()
    keep = np.isfinite(expected)
    return got[keep], expected[keep]


def assert_elements(got, expected, limit, floor, what):
    """|got - expected| <= limit * max(|expected|, floor * max|expected|), element by element."""
    assert_same_kind(got, expected, what)
    a, b = finite_pair(expected, got)
    if a.size == 0:
        return
    scale = np.maximum(np.abs(a), floor * np.abs(a).max())
    error = np.abs(a - b)
    relative = np.divide(error, scale, out=error.copy(), where=scale > 0)
    worst = int(np.argmax(relative))
    assert relative[worst] <= limit, (
        f"{what}: relative error {relative[worst]:.3e} over limit {limit:.3e} at element {worst}, "
        f"expected {a[worst]!r}, got {b[worst]!r}"
    )


def assert_norm(got, expected64, what, limit=tolerances.FP32_NORM):
    """||got - expected|| / ||expected|| <= limit; `expected64` keeps its float64 digits."""
    assert_same_kind(got, np.asarray(expected64).astype(got.dtype), what)
    a, b = finite_pair(expected64, got)
    error, size = np.linalg.norm(a - b), np.linalg.norm(a)
    assert error <= limit * size, f"{what}: norm-wise error {error / max(size, 1e-300):.3e}"


def assert_half(got, expected64, what):
    """Half types: HALF_ULPS from the correctly rounded value, fp32 cancellation allowed."""
    expected = rounded_to(expected64, got.dtype)
    assert_same_kind(got, expected, what)
    a, b = finite_pair(expected, got)
    if a.size == 0:
        return
    allowed = tolerances.HALF_ULPS * ulp(a, got.dtype)
    allowed = np.maximum(allowed, tolerances.HALF_CANCELLATION * np.abs(a).max())
    excess = np.abs(a - b) / allowed
    worst = int(np.argmax(excess))
    assert excess[worst] <= 1, f"{what}: element {worst}: expected {a[worst]!r}, got {b[worst]!r}"


def assert_close(got, expected64, what):
    """Compares by the dtype of `got`: fp64 by element, fp32 by norm and element, half by ulp."""
    if got is not None and got.dtype in (np.float16, np.uint16):
        return assert_half(got, expected64, what)
    assert got is not None, f"{what}: missing (None)"
    expected = np.asarray(expected64).astype(got.dtype)
    if got.dtype == np.float64:
        return assert_elements(got, expected, tolerances.FP64_VALUE, 1.0, what)
    assert_norm(got, expected64, what)
    return assert_elements(got, expected, tolerances.FP32_ELEMENT, 1.0, what)


def central_difference(function, array, cotangents, delta=tolerances.NUMERIC_DELTA):
    """Gradient of sum(function(array) * v) for each v in `cotangents`, by central differences.

    The difference of the outputs is taken before the sum, so that large unrelated outputs do not
    drown it. `function` maps a float64 array to a list of float64 arrays, one for each entry of
    a cotangent.
    """
    grads = [np.zeros(array.shape) for _ in cotangents]
    work = array.astype(np.float64).copy()
    flat = work.reshape(-1)
    for i in range(flat.size):
        kept = flat[i]
        flat[i] = kept + delta
        up, high = function(work), flat[i]
        flat[i] = kept - delta
        down, low = function(work), flat[i]
        flat[i] = kept
        slopes = [(u - d) / (high - low) for u, d in zip(up, down)]
        for grad, cotangent in zip(grads, cotangents):
            grad.reshape(-1)[i] = sum(float((s * v).sum()) for s, v in zip(slopes, cotangent))
    return grads

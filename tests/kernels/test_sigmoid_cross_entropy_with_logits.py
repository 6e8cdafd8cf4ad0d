"""The kernels of sigmoid_cross_entropy_with_logits on NumPy arrays: no Paddle in between.

Index width, thread count and instruction set are forced, and must not change a bit (the first two)
or more than the rounding (the last).
"""

import os

import numpy as np
import pytest
import tolerances
from cross_entropy_cases import FORMS, IGNORED, arrays, attrs_of, cotangent, reference_of
from numeric import as_float64, assert_close, assert_elements

from paddle_ops import _lib

kernels = _lib.kernels()

FLOATING = [np.float32, np.float64, np.float16, np.uint16]
TARGETS = ("baseline", "avx2", "avx512")
MANY = 3 * 16 * 1024 + 1031  # several tasks of several chunks, and a part of one


def forward(data, **options):
    out = np.full(data["x"].shape, 7, data["x"].dtype)
    kernels.sigmoid_cross_entropy_with_logits_forward(out=out, **data, **options)
    return out


def backward(data, grad_out, wanted=("x", "label", "pos_weight"), **options):
    grads = {
        f"grad_{n}": np.full(data[n].shape, 7, data[n].dtype) for n in wanted if data[n] is not None
    }
    kernels.sigmoid_cross_entropy_with_logits_backward(
        grad_out=grad_out, **data, **grads, **options
    )
    return grads


def everything(data, **options):
    """Loss and gradients as one list of arrays."""
    return [forward(data, **options), *backward(data, cotangent(data), **options).values()]


@pytest.fixture
def target():
    """Sets the instruction set for one test."""

    def choose(name):
        os.environ["PADDLE_OPS_TARGET"] = name

    yield choose
    os.environ.pop("PADDLE_OPS_TARGET", None)


# -- exp and log1p -------------------------------------------------------------------------------


def assert_ulps(function, exact, x):
    """At most 1.1 units in the last place from the value in long double."""
    got = np.empty_like(x)
    function(got, x)
    right = exact(x.astype(np.longdouble))
    tiny = np.finfo(x.dtype).smallest_subnormal
    unit = np.maximum(np.spacing(right.astype(x.dtype)), tiny).astype(np.longdouble)
    error = np.abs(got.astype(np.longdouble) - right) / unit
    assert error.max() <= 1.1, f"{error.max()} ulp at {x[error.argmax()]!r}"


@pytest.mark.parametrize("dtype, lowest", [(np.float32, -104), (np.float64, -746)])
def test_exp_within_an_ulp(dtype, lowest):
    random = np.random.RandomState(0)
    x = [random.uniform(lowest, 0, 300000), -np.exp(random.uniform(-40, 7, 300000))]
    edges = [0.0, -0.0, lowest, 2 * lowest, -1e30, -np.inf]
    assert_ulps(kernels.exp_nonpositive, np.exp, np.concatenate([*x, edges]).astype(dtype))


@pytest.mark.parametrize("dtype, smallest", [(np.float32, -100), (np.float64, -700)])
def test_log1p_within_an_ulp(dtype, smallest):
    random = np.random.RandomState(0)
    x = [random.uniform(0, 1, 300000), np.exp(random.uniform(smallest, 0, 300000))]
    edges = [0.0, 1.0, 0.5, np.nextafter(dtype(0.5), dtype(1)), np.nextafter(dtype(1), dtype(0))]
    assert_ulps(kernels.log1p_unit, np.log1p, np.concatenate([*x, edges]).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp_nonpositive", "log1p_unit"])
def test_nan_stays_nan(name, dtype):
    out = np.zeros(1, dtype)
    getattr(kernels, name)(out, np.array([np.nan], dtype))
    assert np.isnan(out[0])


def test_every_float32_between_two_powers():
    """All 2^23 mantissas once: the vector code has no bad spot."""
    x = -np.arange(0x3F000000, 0x3F800000, dtype=np.uint32).view(np.float32)
    assert_ulps(kernels.exp_nonpositive, np.exp, x)
    assert_ulps(kernels.log1p_unit, np.log1p, -x)


# -- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", TARGETS)
def test_against_the_reference(dtype, form, normalize, name, target):
    target(name)
    data, attrs = (
        arrays(dtype, form, (9, 31)),
        attrs_of(form, normalize=normalize, ignore_index=IGNORED),
    )
    reference = reference_of(data, attrs)
    assert_close(forward(data, **attrs), reference.forward(), "loss")
    right = reference.backward(as_float64(cotangent(data)))
    for name, grad in backward(data, cotangent(data), **attrs).items():
        assert_close(grad, right[name[len("grad_") :]], name)


@pytest.mark.parametrize("x_type", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    "label_type",
    [np.float32, np.float64, np.float16, bool, np.uint8, np.int8, np.int16, np.int32, np.int64],
)
@pytest.mark.parametrize("weight_type", [np.float32, np.float64, np.float16])
def test_any_mixture_of_types(x_type, label_type, weight_type):
    data = arrays(np.float16, "softplus", (5, 211))
    hard = np.random.RandomState(1).randint(0, 2, (5, 211))
    data = {
        "x": data["x"].astype(x_type),
        "label": hard.astype(label_type),
        "pos_weight": data["pos_weight"].astype(weight_type),
    }
    attrs = attrs_of("softplus")
    assert_close(forward(data, **attrs), reference_of(data, attrs).forward(), "loss")


# -- index width, threads, instruction sets -------------------------------------------------------


def test_dispatcher_at_the_boundary():
    fits = kernels.sigmoid_cross_entropy_with_logits_fits_int32
    assert fits(0)
    assert fits(2**31 - 1)
    assert not fits(2**31)
    assert not fits(2**32 + 1)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("form", FORMS)
def test_index_width_changes_nothing(dtype, form):
    attrs = attrs_of(form, ignore_index=IGNORED, normalize=True)
    data = arrays(dtype, form, (MANY,))
    for narrow, wide in zip(
        everything(data, index_bits=32, **attrs), everything(data, index_bits=64, **attrs)
    ):
        np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("form", FORMS)
def test_thread_count_changes_nothing(dtype, form):
    attrs = attrs_of(form, ignore_index=IGNORED, normalize=True)
    data = arrays(dtype, form, (MANY,))
    one = everything(data, num_threads=1, **attrs)
    for threads in (2, 3, 8):
        for a, b in zip(one, everything(data, num_threads=threads, **attrs)):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 1023, 1024, 1025, 16384, 16385, 40000])
def test_chunk_borders(count):
    """Every element is written once and none beyond the end."""
    x = np.random.RandomState(0).normal(size=count + 8).astype(np.float32)
    label = np.full(count + 8, 0.25, np.float32)
    out = np.full(count + 8, -1, np.float32)
    kernels.sigmoid_cross_entropy_with_logits_forward(
        out=out[:count], x=x[:count], label=label[:count], num_threads=2
    )
    assert (out[count:] == -1).all()
    whole = forward({"x": x, "label": label, "pos_weight": None})
    assert_elements(out[:count], whole[:count], tolerances.FP32_ELEMENTARY, 0.0, "loss")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
def test_instruction_sets_agree(dtype, form, target):
    attrs = attrs_of(form, ignore_index=IGNORED)
    data = arrays(dtype, form, (MANY,))
    results = []
    for name in TARGETS:
        target(name)
        results.append(everything(data, **attrs))
    limit = tolerances.FP32_NORM if dtype == np.float32 else tolerances.FP64_VALUE
    for other in results[1:]:
        for a, b in zip(results[0], other):
            assert_elements(b, a, limit, 1.0, "instruction sets")


def test_count_of_kept_elements_is_exact():
    """2^24 + 1, the number of kept ones, does not exist in float32."""
    count = 2**24 + 2
    data = {"x": np.zeros(count), "label": np.zeros(count, np.uint8), "pos_weight": None}
    data["label"][-1] = 9
    out = forward(data, normalize=True, ignore_index=9)
    np.testing.assert_allclose(out[[0, count // 2]], np.log(2) / (count - 1), rtol=1e-14)
    assert out[-1] == 0


# -- the module's own arguments -------------------------------------------------------------------


def test_only_the_wanted_gradients_are_written():
    data = arrays(np.float32, "log1p")
    assert set(backward(data, cotangent(data), wanted=["label"])) == {"grad_label"}
    backward(data, cotangent(data), wanted=[])


def test_raw_pointers():
    data = arrays(np.float32, "log1p", (3, 50))
    out = np.zeros((3, 50), np.float32)

    def pointer(a):
        return (a.ctypes.data, a.dtype.name, list(a.shape))

    kernels.sigmoid_cross_entropy_with_logits_forward(
        out=pointer(out), **{n: pointer(a) for n, a in data.items()}
    )
    np.testing.assert_array_equal(out, forward(data))


def test_empty_arrays():
    data = {"x": np.zeros((0, 3)), "label": np.zeros((0, 3)), "pos_weight": None}
    for normalize in (False, True):
        assert forward(data, normalize=normalize).shape == (0, 3)
        assert backward(data, data["x"], normalize=normalize)["grad_x"].shape == (0, 3)


def f(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def read_only():
    array = f(3, 4)
    array.flags.writeable = False
    return array


BAD = {
    "label_shape": (ValueError, {"label": f(4, 3)}),
    "label_none": (TypeError, {"label": None}),
    "weight_shape": (ValueError, {"pos_weight": f(4)}),
    "out_shape": (ValueError, {"out": f(12)}),
    "out_none": (TypeError, {"out": None}),
    "out_int": (TypeError, {"out": f(3, 4, dtype=np.int32)}),
    "out_read_only": (ValueError, {"out": read_only()}),
    "x_int": (TypeError, {"x": f(3, 4, dtype=np.int64)}),
    "x_complex": (TypeError, {"x": f(3, 4, dtype=np.complex64)}),
    "x_list": (TypeError, {"x": [[0.0]]}),
    "x_strided": (ValueError, {"x": f(4, 3).T}),
    "form": (ValueError, {"pos_weight_form": "sum"}),
    "index_bits": (ValueError, {"index_bits": 16}),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name):
    error, changes = BAD[name]
    arguments = {"out": f(3, 4), "x": f(3, 4), "label": f(3, 4), **changes}
    with pytest.raises(error):
        kernels.sigmoid_cross_entropy_with_logits_forward(**arguments)


def test_32_bits_are_refused_where_they_do_not_suffice():
    """Nothing is touched, so nothing is allocated either."""
    huge = np.empty(2**31, np.float16)
    with pytest.raises(ValueError, match="index_bits"):
        kernels.sigmoid_cross_entropy_with_logits_forward(
            out=huge, x=huge, label=huge, index_bits=32
        )

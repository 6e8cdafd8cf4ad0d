"""The CUDA kernels of sigmoid_cross_entropy_with_logits, run on the CPU, against the reference."""

import numpy as np
import pytest
import tolerances
from cross_entropy_cases import FORMS, IGNORED, arrays, attrs_of, cotangent, reference_of
from numeric import as_float64, assert_close, assert_elements, central_difference, rounded_to

from kernels.cuda import emulator

pytestmark = [emulator.needs_nvcc, pytest.mark.jit]

OP = "sigmoid_cross_entropy_with_logits"
FLOATING = [np.float32, np.float64, np.float16, np.uint16]
COUNT = 2311  # several blocks, and a rest for every width of a pack
PASSES = ("forward", "backward", "double_backward")


@pytest.fixture(scope="module")
def kernels():
    return emulator.operator(OP)


def filled(like):
    return np.full(like.shape, 7, like.dtype)


def forward(kernels, data, **options):
    out = filled(data["x"])
    getattr(kernels, f"{OP}_forward")(out=out, **data, **options)
    return out


def backward(kernels, data, grad_out, **options):
    grads = {f"grad_{n}": filled(a) for n, a in data.items() if a is not None}
    getattr(kernels, f"{OP}_backward")(grad_out=grad_out, **data, **grads, **options)
    return grads


def cotangents(data):
    """The cotangents of backward's results."""
    return {
        f"grad_grad_{n}": None if a is None else cotangent({"x": a}, seed=5 + i)
        for i, (n, a) in enumerate(data.items())
    }


def double_backward(kernels, data, grad_out, more, **options):
    results = {f"grad_{n}": filled(a) for n, a in data.items() if a is not None}
    results["grad_grad_out"] = filled(data["x"])
    getattr(kernels, f"{OP}_double_backward")(
        grad_out=grad_out, **data, **more, **results, **options
    )
    return results


def everything(kernels, data, **options):
    """All results of the three passes in one list."""
    g = cotangent(data)
    second = double_backward(kernels, data, g, cotangents(data), **options)
    return [
        forward(kernels, data, **options),
        *backward(kernels, data, g, **options).values(),
        *second.values(),
    ]


def assert_same_bits(one, other):
    for a, b in zip(one, other):
        np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))
    assert len(one) == len(other)


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("normalize", [False, True])
def test_against_the_reference(kernels, dtype, form, normalize):
    data = arrays(dtype, form, (9, 31))
    attrs = attrs_of(form, normalize=normalize, ignore_index=IGNORED)
    reference = reference_of(data, attrs)
    assert_close(forward(kernels, data, **attrs), reference.forward(), "loss")
    g = cotangent(data)
    right = reference.backward(as_float64(g))
    for name, grad in backward(kernels, data, g, **attrs).items():
        assert_close(grad, right[name[len("grad_") :]], name)
    more = {"grad_grad_x": cotangent(data, seed=2)}
    second = double_backward(kernels, data, g, more, **attrs)
    right = reference.double_backward(as_float64(g), as_float64(more["grad_grad_x"]))
    assert_close(second["grad_grad_out"], right["grad_out"], "grad_grad_out")
    assert_close(second["grad_x"], right["x"], "second grad_x")


@pytest.mark.parametrize("form", FORMS)
def test_all_of_double_backward_by_central_differences(kernels, form):
    data = arrays(np.float64, form, (19,))
    data["x"] = np.where(np.abs(data["x"]) < 1e-2, 0.5, data["x"])  # away from the kink
    g, more = cotangent(data), cotangents(data)
    attrs = attrs_of(form, normalize=True, ignore_index=IGNORED)
    got = double_backward(kernels, data, g, more, **attrs)
    weights = [v for v in more.values() if v is not None]

    for name, array in {**data, "grad_out": g}.items():
        if array is None:
            continue

        def first_order(value, name=name):
            inputs = {**data, "grad_out": g, name: value}
            return list(
                backward(
                    kernels, {n: inputs[n] for n in data}, inputs["grad_out"], **attrs
                ).values()
            )

        right = central_difference(first_order, array, [weights])[0]
        result = got["grad_grad_out" if name == "grad_out" else f"grad_{name}"]
        counted = data["label"] != IGNORED  # an ignored label has no neighbours
        assert_elements(
            result[counted],
            right[counted],
            tolerances.FP64_GRAD,
            tolerances.FP64_GRAD_FLOOR,
            name,
        )
        assert (result[~counted] == 0).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOATING)
def test_limits(kernels, dtype, form):
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 17, -17, 88, -104])
    x, label = (v.ravel() for v in np.meshgrid(values, [0.0, 1.0, 0.5]))
    data = {"x": rounded_to(x, dtype), "label": rounded_to(label, dtype), "pos_weight": None}
    if form != "none":
        data["pos_weight"] = rounded_to(np.where(np.arange(x.size) % 2, 0.5, 0), dtype)
    attrs = attrs_of(form)
    reference = reference_of(data, attrs)
    assert_close(forward(kernels, data, **attrs), reference.forward(), "loss")
    ones = rounded_to(np.ones(x.size), dtype)
    grads = backward(kernels, data, ones, **attrs)
    assert_close(grads["grad_x"], reference.slope(), "grad_x")


@pytest.mark.parametrize("x_type", FLOATING)
@pytest.mark.parametrize(
    "label_type",
    [np.float32, np.float64, np.float16, bool, np.uint8, np.int8, np.int16, np.int32, np.int64],
)
@pytest.mark.parametrize("weight_type", [np.float32, np.float64, np.float16])
def test_any_mixture_of_types(kernels, x_type, label_type, weight_type):
    data = arrays(np.float16, "softplus", (5, 61))
    data = {
        "x": rounded_to(data["x"], x_type),
        "label": np.random.RandomState(1).randint(0, 2, (5, 61)).astype(label_type),
        "pos_weight": data["pos_weight"].astype(weight_type),
    }
    attrs = attrs_of("softplus", normalize=True, ignore_index=0)
    assert_close(forward(kernels, data, **attrs), reference_of(data, attrs).forward(), "loss")


def test_gradients_have_their_own_types(kernels):
    data = arrays(np.float16, "softplus", (5, 61))
    data["label"] = data["label"].astype(np.float64)
    data["pos_weight"] = data["pos_weight"].astype(np.float32)
    g, attrs = cotangent(data), attrs_of("softplus")
    right = reference_of(data, attrs).backward(as_float64(g))
    grads = backward(kernels, data, g, **attrs)
    # computed in float whatever the type that it is stored in
    label = grads["grad_label"].astype(np.float32)
    assert_close(label, right["label"], "grad_label")
    assert_close(grads["grad_pos_weight"], right["pos_weight"], "grad_pos_weight")
    assert grads["grad_label"].dtype == np.float64


# -- how the grid is cut --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("form", FORMS)
def test_index_width_grid_and_order_change_nothing(kernels, dtype, form):
    data = arrays(dtype, form, (COUNT,))
    options = attrs_of(form, normalize=True, ignore_index=IGNORED)
    usual = everything(kernels, data, index_bits=32, **options)
    assert_same_bits(usual, everything(kernels, data, index_bits=64, **options))
    for how in ({"grid": (1,), "block": (32,)}, {"order": "reverse"}, {"order": "random"}):
        with kernels.program.configured(**how):
            assert_same_bits(usual, everything(kernels, data, **options))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 9, 31, 1023, 1024, 1025, 2048, 2049])
@pytest.mark.parametrize("dtype", FLOATING)
def test_borders_of_packs_and_blocks(kernels, dtype, count):
    """Every element is written once; the memory around is no allocation, so it is not touched."""
    data = arrays(dtype, "log1p", (count,))
    whole = arrays(dtype, "log1p", (2049,))
    data = {name: array[:count].copy() for name, array in whole.items()}
    loss = forward(kernels, data)
    np.testing.assert_array_equal(loss, forward(kernels, whole)[:count])


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("moved", ["x", "label", "pos_weight", "out"])
def test_unaligned_views(kernels, dtype, moved):
    """One tensor begins one element after a multiple of 16 bytes."""
    data = arrays(dtype, "softplus", (131,))
    right = forward(kernels, data, **attrs_of("softplus"))
    inputs = {"out": filled(data["x"]), **data}
    room = np.empty(200, dtype)
    start = -room.ctypes.data % 16 // room.itemsize + 1
    view = room[start : start + 131]
    view[...] = inputs[moved]
    inputs[moved] = view
    getattr(kernels, f"{OP}_forward")(**inputs, **attrs_of("softplus"))
    np.testing.assert_array_equal(inputs["out"], right)


def test_empty(kernels):
    empty = np.zeros((0, 3), np.float32)
    before = kernels.program.launches()
    for normalize in (False, True):
        data = {"x": empty, "label": empty, "pos_weight": None}
        assert forward(kernels, data, normalize=normalize).shape == (0, 3)
        backward(kernels, data, empty, normalize=normalize)
    launched = kernels.program.launches() - before
    assert launched == 0


def test_all_ignored(kernels):
    data = {"x": np.ones(9, np.float32), "label": np.full(9, 5, np.int64), "pos_weight": None}
    out = forward(kernels, data, normalize=True, ignore_index=5)
    np.testing.assert_array_equal(out, np.zeros(9))


def test_only_the_wanted_gradients_are_computed(kernels):
    data = arrays(np.float32, "log1p", (50,))
    grad = filled(data["label"])
    getattr(kernels, f"{OP}_backward")(grad_out=cotangent(data), grad_label=grad, **data)
    np.testing.assert_array_equal(grad, backward(kernels, data, cotangent(data))["grad_label"])


def test_the_host_never_waits(kernels):
    data = arrays(np.float32, "softplus", (COUNT,))
    waits = kernels.program.waits()
    everything(kernels, data, normalize=True, pos_weight_form="softplus")
    assert kernels.program.waits() == waits


# -- beyond 2^31 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2**31 - 8, 2**31, 2**32 + 2048])
def test_the_last_block_of_many_elements(kernels, count):
    """Both sides of the border between the index widths, on the pages that one block touches."""
    x, out = (emulator.sparse(count, np.float16) for _ in range(2))
    label = emulator.sparse(count, np.uint8)
    last = slice(count - 8, count)
    x[last], label[last] = np.linspace(-3, 3, 8), [0, 1] * 4
    block = -(-count // (8 * 256)) - 1
    with kernels.program.configured(blocks=(block, block)):
        getattr(kernels, f"{OP}_forward")(out=out, x=x, label=label)
    small = {"x": x[last].copy(), "label": label[last].copy(), "pos_weight": None}
    np.testing.assert_array_equal(out[last], forward(kernels, small))
    assert out[0] == 0


@pytest.mark.parametrize("count", [2**31 - 1, 2**31, 2**32 + 5])
def test_the_last_block_of_single_elements(kernels, count):
    """x is not aligned, so that each element is on its own and indices come near to the border."""
    x = emulator.sparse(count + 1, np.float16)[1:]
    label, out = emulator.sparse(count, np.uint8), emulator.sparse(count, np.float16)
    x[-3:], label[-3:] = [1, -2, 3], [0, 1, 0]
    block = (count - 1) // 256
    with kernels.program.configured(blocks=(block, block)):
        getattr(kernels, f"{OP}_forward")(out=out, x=x, label=label)
    small = {"x": x[-3:].copy(), "label": label[-3:].copy(), "pos_weight": None}
    np.testing.assert_array_equal(out[-3:], forward(kernels, small))


def test_grid_sizes_are_formed_in_64_bits():
    program = emulator.build(["programs/grid.cu"])
    work = np.array([0, 1, 256, 257, 2**31, 2**39 - 256, 2**39, 2**62])
    sizes = np.zeros((2, work.size), np.int64)
    program.call("grid_sizes", work, sizes, work.size)
    most = 2**31 - 1
    np.testing.assert_array_equal(sizes[0], [1, 1, 1, 2, 2**23, most, most, most])
    np.testing.assert_array_equal(sizes[1], [1, 1, 4, 5, 1000, 1000, 1000, 1000])


def test_the_count_beyond_2_31(kernels):
    """Block 2^21 of 2^21 + 1 counts 1024 labels from 2^31 on and, in its second round, the last
    1024 of all; in the second kernel it has the last 2048 elements.
    """
    count, block = 2**32 + 2048, 2**21
    x, out = (emulator.sparse(count, np.float16) for _ in range(2))
    label = emulator.sparse(count, np.uint8)
    label[[2**31, 2**31 + 5, 2**31 + 1023, 2**32 + 1024, count - 1]] = 9
    label[[2**31 - 1, 2**31 + 1024, 2**32 + 1023]] = 9  # another block's
    with kernels.program.configured(grid=(block + 1,), blocks=(block, block)):
        getattr(kernels, f"{OP}_forward")(out=out, x=x, label=label, normalize=True, ignore_index=9)
    right = np.full(2048, np.float16(np.log(2) / (2 * 1024 - 5)))
    right[label[2**32 :] == 9] = 0
    np.testing.assert_array_equal(out[2**32 :], right)


# -- sanitizers -----------------------------------------------------------------------------------

SCRIPT = """
kernels = program.module()
random = np.random.RandomState(0)
for dtype in DTYPES:
    for count in COUNTS:
        x, g = (random.normal(0, 3, count).astype(dtype) for _ in range(2))
        label, w = random.randint(0, 2, count).astype(np.int8), random.uniform(0, 2, count)
        out, grad_x, grad_w = np.zeros(count, dtype), np.zeros(count, dtype), np.zeros(count)
        options = dict(x=x, label=label, pos_weight=w, normalize=True, ignore_index=1)
        with program.configured(block=BLOCK):
            kernels.sigmoid_cross_entropy_with_logits_forward(out=out, **options)
            kernels.sigmoid_cross_entropy_with_logits_backward(
                grad_out=g, grad_x=grad_x, grad_pos_weight=grad_w, **options)
            kernels.sigmoid_cross_entropy_with_logits_double_backward(
                grad_out=g, grad_grad_x=g, grad_grad_out=out, grad_x=grad_x, **options)
        assert np.isfinite(out).all() and np.isfinite(grad_x).all() and np.isfinite(grad_w).all()
print("nothing")
"""
# ThreadSanitizer takes a while to start each thread, so there it is few in each of three blocks.
SANITIZED = {
    "address": ("[np.float32, np.float64, np.float16]", "[1, 8, 1029, 5000]", "(256,)"),
    "thread": ("[np.float32]", "[2101]", "(64,)"),
}


@pytest.mark.parametrize("sanitize", SANITIZED)
def test_sanitizers(sanitize):
    program = emulator.operator_program(OP, front_end="source", sanitize=sanitize)
    script = SCRIPT
    for name, value in zip(("DTYPES", "COUNTS", "BLOCK"), SANITIZED[sanitize]):
        script = script.replace(name, value)
    assert emulator.sanitized(program, script) == "nothing\n"

"""sigmoid_cross_entropy_with_logits in every graph mode, under no_grad, and with bad input."""

import weakref

import child
import numpy as np
import paddle
import pytest
from cross_entropy_cases import FORMS, IGNORED, NAMES, SUBSETS, arrays, attrs_of, function_of, judge
from modes import MODES, static_guard, tensor

from paddle_ops import sigmoid_cross_entropy_with_logits

DTYPES = [np.float32, np.float64, np.float16, np.uint16]


# -- graph modes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_types(mode, dtype, form):
    attrs = attrs_of(form, ignore_index=IGNORED, normalize=True)
    judge(arrays(dtype, form), attrs, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wanted", SUBSETS)
def test_some_gradients(mode, form, wanted):
    judge(arrays(np.float32, form), attrs_of(form), wanted=wanted, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_integer_labels(mode, form):
    data = arrays(np.float32, form)
    data["label"] = np.random.RandomState(4).randint(0, 2, (4, 5)).astype(np.int64)
    wanted = [n for n in ("x", "pos_weight") if data[n] is not None]
    judge(data, attrs_of(form), wanted=wanted, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(5,), (1, 5), (4, 1)])
def test_broadcast_pos_weight(mode, shape):
    data = arrays(np.float64, "log1p")
    data["pos_weight"] = np.random.RandomState(5).uniform(0.5, 2, shape)
    judge(data, {}, mode=mode)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dims", [(0,), (0, 1)])
@pytest.mark.parametrize("weight_shape", [(4, 5), (5,), (1, 5)])
def test_static_graph_with_unknown_sizes(form, dims, weight_shape):
    data = arrays(np.float64, form)
    unknown = {0: dims, 1: dims}
    if form != "none":
        data["pos_weight"] = data["pos_weight"].reshape(-1)[: np.prod(weight_shape)]
        data["pos_weight"] = np.ascontiguousarray(data["pos_weight"].reshape(weight_shape))
        if weight_shape == (4, 5):
            unknown[2] = dims
    judge(data, attrs_of(form), mode="static", unknown_dims=unknown)


def test_inferred_shape_and_type():
    with static_guard(), paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [-1, 3, -1], "float64")
        label = paddle.static.data("label", [-1, 3, -1], "int64")
        out = sigmoid_cross_entropy_with_logits(x, label)
        assert tuple(out.shape) == (-1, 3, -1)
        assert out.dtype == x.dtype


@pytest.mark.parametrize("full_graph", [True, False], ids=["ast", "sot"])
def test_training_in_to_static_equals_dynamic_training(full_graph):
    x = np.random.RandomState(0).uniform(-1, 1, (16, 3)).astype(np.float32)
    y = (x.sum(axis=1, keepdims=True) > 0).astype(np.int64)
    losses = {}
    for compiled in (False, True):
        paddle.seed(1)
        net = Classifier()
        step = paddle.jit.to_static(net, full_graph=full_graph) if compiled else net
        optimizer = paddle.optimizer.SGD(1.0, parameters=net.parameters())
        losses[compiled] = []
        for _ in range(4):
            loss = step(paddle.to_tensor(x), paddle.to_tensor(y))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses[compiled].append(loss.item())
    np.testing.assert_allclose(losses[True], losses[False], rtol=1e-5)
    assert losses[False][-1] < losses[False][0]


class Classifier(paddle.nn.Layer):
    """One linear layer under the loss."""

    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(3, 1)

    def forward(self, x, label):
        return sigmoid_cross_entropy_with_logits(self.linear(x), label, normalize=True).sum()


# -- no_grad -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_no_grad_records_nothing(form):
    data = arrays(np.float32, form)
    tensors = [None if data[n] is None else tensor(data[n], False) for n in NAMES]
    middle = tensors[0] * 2
    seen = weakref.ref(middle)
    with paddle.no_grad():
        loss = function_of(attrs_of(form))(middle, *tensors[1:])
    assert loss.stop_gradient
    del middle
    assert seen() is None


# -- bad input -----------------------------------------------------------------------------------


def f(*shape, dtype="float32"):
    return paddle.zeros(list(shape), dtype)


# name: (argument named by the message, type of the error, changed arguments)
BAD = {
    "x_list": ("x", TypeError, {"x": [[0.0]]}),
    "x_array": ("x", TypeError, {"x": np.zeros((3, 4), np.float32)}),
    "x_none": ("x", TypeError, {"x": None}),
    "x_int": ("x", TypeError, {"x": f(3, 4, dtype="int32")}),
    "x_bool": ("x", TypeError, {"x": f(3, 4, dtype="bool")}),
    "x_complex": ("x", TypeError, {"x": f(3, 4, dtype="complex64")}),
    "label_none": ("label", TypeError, {"label": None}),
    "label_number": ("label", TypeError, {"label": 1.0}),
    "label_complex": ("label", TypeError, {"label": f(3, 4, dtype="complex64")}),
    "label_shape": ("label", ValueError, {"label": f(3, 5)}),
    "label_broadcastable": ("label", ValueError, {"label": f(3, 1)}),
    "label_rank": ("label", ValueError, {"label": f(12)}),
    "label_scalar": ("label", ValueError, {"label": f()}),
    "label_empty": ("label", ValueError, {"label": f(0, 4)}),
    "pos_weight_number": ("pos_weight", TypeError, {"pos_weight": 2.0}),
    "pos_weight_int": ("pos_weight", TypeError, {"pos_weight": f(3, 4, dtype="int64")}),
    "pos_weight_length": ("pos_weight", ValueError, {"pos_weight": f(3)}),
    "pos_weight_rank": ("pos_weight", ValueError, {"pos_weight": f(1, 3, 4)}),
    "pos_weight_larger": ("pos_weight", ValueError, {"pos_weight": f(6, 4)}),
    "normalize": ("normalize", TypeError, {"normalize": 1}),
    "ignore_index_float": ("ignore_index", TypeError, {"ignore_index": 0.5}),
    "ignore_index_none": ("ignore_index", TypeError, {"ignore_index": None}),
    "ignore_index_large": ("ignore_index", ValueError, {"ignore_index": 2**31}),
    "form": ("pos_weight_form", ValueError, {"pos_weight_form": "sum"}),
    "form_none": ("pos_weight_form", ValueError, {"pos_weight_form": None}),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name, monkeypatch):
    """Each is refused by a message that names it, before any kernel runs."""
    from paddle_ops.functional import sigmoid_cross_entropy_with_logits as function

    module = __import__(function.__module__, fromlist=["run"])
    monkeypatch.setattr(module, "run", lambda *_: pytest.fail("a kernel was reached"))
    argument, error, changes = BAD[name]
    arguments = {"x": f(3, 4), "label": f(3, 4), "pos_weight": f(3, 4), **changes}
    start = f"sigmoid_cross_entropy_with_logits: {argument}: expected "
    with pytest.raises(error, match=start + ".*, got "):
        sigmoid_cross_entropy_with_logits(**arguments)


def test_bad_input_in_static_graphs_is_a_python_error():
    """In a process of its own: Paddle 3 ends the process on an error while it infers shapes."""
    printed = child.run(
        """
import paddle
from paddle_ops import sigmoid_cross_entropy_with_logits as function
paddle.enable_static()
with paddle.static.program_guard(paddle.static.Program()):
    data = lambda name, shape, dtype="float32": paddle.static.data(name, shape, dtype)
    x, label = data("x", [-1, 4]), data("label", [-1, 4])
    bad = [
        dict(label=data("a", [-1, 5])),
        dict(label=data("b", [4])),
        dict(x=data("c", [-1, 4], "int64")),
        dict(pos_weight=data("d", [3])),
        dict(pos_weight_form="sum"),
        dict(ignore_index=1.5),
        dict(normalize=None),
    ]
    for changes in bad:
        try:
            function(**{"x": x, "label": label, **changes})
        except (TypeError, ValueError) as error:
            assert "expected" in str(error), error
            print("refused")
"""
    )
    assert printed.count("refused") == 7


def test_shapes_that_differ_at_run_time_raise():
    """A static graph with unknown sizes finds out when it runs; the process survives."""
    with static_guard():
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x = paddle.static.data("x", [-1, 4], "float32")
            label = paddle.static.data("label", [-1, 4], "float32")
            out = sigmoid_cross_entropy_with_logits(x, label)
        executor = paddle.static.Executor(paddle.CPUPlace())
        feed = {"x": np.zeros((3, 4), np.float32), "label": np.zeros((2, 4), np.float32)}
        with pytest.raises(Exception):  # noqa: B017  Paddle 3 loses type and message
            executor.run(main, feed=feed, fetch_list=[out])
        feed["label"] = feed["x"]
        assert executor.run(main, feed=feed, fetch_list=[out])[0].shape == (3, 4)

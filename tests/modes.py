"""Runs one Python function in each of Paddle's graph modes and returns NumPy arrays.

`evaluate(mode, function, arrays, wanted, grad_outputs)` calls `function(*tensors)` with tensors
made of `arrays` (None stays None), those at the positions `wanted` with stop_gradient=False, and
returns (list of outputs, {position: gradient or None}). A uint16 array is a bfloat16 tensor.
"""

import contextlib

import numpy as np
import paddle

MODES = ("dygraph", "static", "to_static_ast", "to_static_sot")


def dtype_name(array):
    """Paddle's name for the dtype of an array; uint16 arrays carry bfloat16 bits."""
    return "bfloat16" if array.dtype == np.uint16 else array.dtype.name


def tensor(array, stop_gradient=True):
    """An eager tensor that holds `array`; bfloat16 for uint16."""
    if array is None:
        return None
    return paddle.to_tensor(np.ascontiguousarray(array), stop_gradient=stop_gradient)


@contextlib.contextmanager
def dynamic_guard():
    """Dynamic mode inside, the mode that was on before afterwards."""
    was_static = not paddle.in_dynamic_mode()
    paddle.disable_static()
    try:
        yield
    finally:
        if was_static:
            paddle.enable_static()


@contextlib.contextmanager
def static_guard():
    """Static mode inside, the mode that was on before afterwards."""
    was_dynamic = paddle.in_dynamic_mode()
    paddle.enable_static()
    try:
        yield
    finally:
        if was_dynamic:
            paddle.disable_static()


def as_list(value):
    """The outputs of a function as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


class _Net(paddle.nn.Layer):
    """to_static refuses *args, so the tensors travel in one list."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, tensors):
        return self.function(*tensors)


def _eager(function, arrays, wanted, grad_outputs):
    tensors = [tensor(a, i not in wanted) for i, a in enumerate(arrays)]
    outputs = as_list(function(*tensors))
    if wanted:
        cotangents = [None] if grad_outputs is None else [tensor(g) for g in grad_outputs]
        paddle.autograd.backward(outputs[: len(cotangents)], cotangents)
    grads = {}
    for i in wanted:
        grads[i] = None if tensors[i].grad is None else tensors[i].grad.numpy()
    return [o.numpy() for o in outputs], grads


def _to_static(function, full_graph):
    net = paddle.jit.to_static(_Net(function), full_graph=full_graph)

    def call(*tensors):
        # None cannot be traced as an input: it is closed over, as a caller's own code would.
        if all(t is not None for t in tensors):
            return net(list(tensors))
        here = [i for i, t in enumerate(tensors) if t is not None]

        def with_none(*present):
            full = [None] * len(tensors)
            for i, t in zip(here, present):
                full[i] = t
            return function(*full)

        inner = paddle.jit.to_static(_Net(with_none), full_graph=full_graph)
        return inner([tensors[i] for i in here])

    return call


def _declared(shape, unknown):
    return [-1 if i in unknown else s for i, s in enumerate(shape)]


def _static(function, arrays, wanted, grad_outputs, unknown_dims):
    main, startup = paddle.static.Program(), paddle.static.Program()
    with static_guard(), paddle.static.program_guard(main, startup):
        feed, variables = {}, []
        for i, array in enumerate(arrays):
            if array is None:
                variables.append(None)
                continue
            unknown = unknown_dims.get(i, ()) if unknown_dims else ()
            v = paddle.static.data(f"in_{i}", _declared(array.shape, unknown), dtype_name(array))
            v.stop_gradient = i not in wanted
            variables.append(v)
            feed[f"in_{i}"] = np.ascontiguousarray(array)
        outputs = as_list(function(*variables))
        grads = []
        if wanted:
            targets = None
            if grad_outputs is not None:
                targets = []
                for i, (g, out) in enumerate(zip(grad_outputs, outputs)):
                    shape = list(out.shape)  # Paddle 2.6 wants the same sizes to be unknown
                    targets.append(paddle.static.data(f"grad_{i}", shape, dtype_name(g)))
                    feed[f"grad_{i}"] = np.ascontiguousarray(g)
            count = 1 if targets is None else len(targets)
            inputs = [variables[i] for i in wanted]
            grads = paddle.static.gradients(outputs[:count], inputs, targets)
        present = [g for g in grads if g is not None]
        executor = paddle.static.Executor()
        executor.run(startup)
        fetched = executor.run(main, feed=feed, fetch_list=outputs + present)
    values = [np.asarray(f) for f in fetched[: len(outputs)]]
    rest = iter(fetched[len(outputs) :])
    found = {i: None if g is None else np.asarray(next(rest)) for i, g in zip(wanted, grads)}
    return values, found


def evaluate(mode, function, arrays, wanted=(), grad_outputs=None, unknown_dims=None):
    """Outputs and gradients of `function` in one mode; see the module's docstring.

    Args:
        mode: one of MODES.
        function: takes tensors in the order of `arrays`, returns a tensor or several.
        arrays: NumPy arrays or None.
        wanted: positions whose gradient is asked for; the others have stop_gradient=True.
        grad_outputs: one cotangent per output; default ones for the first output alone.
        unknown_dims: {position: dimensions declared as -1}, static mode only.
    """
    wanted = list(wanted)
    if mode == "static":
        return _static(function, arrays, wanted, grad_outputs, unknown_dims)
    with dynamic_guard():
        if mode == "to_static_ast":
            function = _to_static(function, full_graph=True)
        elif mode == "to_static_sot":
            function = _to_static(function, full_graph=False)
        elif mode != "dygraph":
            raise ValueError(f"unknown mode {mode!r}, expected one of {MODES}")
        return _eager(function, arrays, wanted, grad_outputs)

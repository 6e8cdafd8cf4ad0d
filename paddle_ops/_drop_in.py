"""Paddle's own functions made to call this package's, reversibly."""

from __future__ import annotations

import inspect
from types import CodeType, FunctionType

import paddle

from . import _lib

# The next two are what Paddle's functions do while they are patched. The code of a function finds
# the globals of the module that the function is from, here Paddle's: hence the imports inside.


def _deform_conv2d(
    x,
    offset,
    weight,
    bias=None,
    stride=1,
    padding=0,
    dilation=1,
    deformable_groups=1,
    groups=1,
    mask=None,
    name=None,
):
    from paddle_ops import functional

    return functional.deform_conv2d(
        x, offset, weight, bias, stride, padding, dilation, deformable_groups, groups, mask
    )


def _cross_entropy(logit, label, weight=None, reduction="mean", pos_weight=None, name=None):
    from paddle_ops import functional

    return functional.binary_cross_entropy_with_logits(logit, label, weight, reduction, pos_weight)


# The code of each of Paddle's functions that is patched.
_originals: dict[FunctionType, CodeType] = {}


class _Patch:
    """What `patch_paddle` returns: as a context manager it restores what was before the call."""

    def __init__(self, patched_before: bool):
        self._patched_before = patched_before

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_) -> None:
        if not self._patched_before:
            unpatch_paddle()


def patch_paddle() -> _Patch:
    """Make Paddle's own deformable convolution and binary cross entropy use these operators.

    Afterwards `paddle.vision.ops.deform_conv2d` and
    `paddle.nn.functional.binary_cross_entropy_with_logits` compute with this package, and so does
    whatever calls them: `paddle.vision.ops.DeformConv2D`, `paddle.nn.BCEWithLogitsLoss`, their
    subclasses and existing instances, `paddle.distribution.Bernoulli`, code of others. Layers stay
    what they are: class, parameters, state dict and signatures do not change.

    The two function objects stay, too, and only the code in them is exchanged. So it does not
    matter who imported them under which name, or holds them in a closure, a list or a
    `functools.partial`, nor whether that was before this call.

    Out of reach are programs that are traced already (`paddle.static`, `paddle.jit.to_static`,
    saved models), which keep the operators they were traced with; calls of operators below
    Paddle's functions (`paddle._C_ops`, `paddle.static.nn.deform_conv2d`); and code that has put
    another function into the place of one of these two.

    The arguments mean what they do in Paddle; where the results differ, they are those that
    docs/differences.md lists as right. That includes `pos_weight` on Paddle 2.6, which means what
    it means in Paddle 3 and PyTorch. A weight of the cross entropy must broadcast to the shape of
    the logits; Paddle's own also broadcasts the loss to that of the weight.

    The change is one of the whole process. A second call changes nothing more.

    Returns:
        A context manager that restores what was before the call when its block ends, which is
        Paddle's own code or, inside an outer block or after an earlier call, the patched one.
        Without `with` the change stays until `unpatch_paddle`.

    Raises:
        ImportError: There is no binary of the operators for this Paddle.
        RuntimeError: This Paddle's functions have other arguments than those known here.

    Example:
        >>> import paddle
        >>> import paddle_ops
        >>> x = paddle.to_tensor([0.0], stop_gradient=False)
        >>> loss = paddle.nn.BCEWithLogitsLoss()
        >>> with paddle_ops.patch_paddle():
        ...     loss(x, paddle.to_tensor([1.0])).backward()
        >>> x.grad.tolist()
        [-0.5]
    """
    _lib.require()
    patch = _Patch(patched_before=bool(_originals))
    if not _originals:
        pairs = [
            (paddle.vision.ops.deform_conv2d, _deform_conv2d),
            (paddle.nn.functional.binary_cross_entropy_with_logits, _cross_entropy),
        ]
        # All are looked at before the first is changed.
        for function, replacement in [(_known(*pair), pair[1]) for pair in pairs]:
            _originals[function] = function.__code__
            function.__code__ = replacement.__code__
    return patch


def unpatch_paddle() -> None:
    """Give Paddle its own deformable convolution and binary cross entropy back.

    Undoes `patch_paddle` however often it was called; does nothing where it was not.

    Example:
        >>> import paddle_ops
        >>> paddle_ops.unpatch_paddle()
    """
    while _originals:
        function, code = _originals.popitem()
        function.__code__ = code


def _known(function: FunctionType, replacement: FunctionType) -> FunctionType:
    """Return Paddle's function below its decorators, if it takes the arguments known here."""
    function = inspect.unwrap(function)
    expected = list(inspect.signature(replacement).parameters)
    got = list(inspect.signature(function).parameters)
    if got != expected:
        raise RuntimeError(
            f"patch_paddle: {function.__name__}: expected arguments {expected}, got {got}"
        )
    return function

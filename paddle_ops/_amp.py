"""What paddle.amp.auto_cast asks for: Paddle casts nothing for custom operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import paddle
from paddle.base import core
from paddle.base.framework import _dygraph_tracer

from . import _check

_CASTABLE = ("float32", "float16", "bfloat16")


def target(names: Iterable[str]) -> str | None:
    """Return the type that auto_cast wants for an operator's inputs, None where it is off.

    Args:
        names: what the operator is called on a custom black list, which keeps it in float32.
    """
    if paddle.in_dynamic_mode():
        state = _dygraph_tracer()
        lists = state._get_amp_op_list
    elif hasattr(core, "_get_amp_attrs"):
        state, lists = core._get_amp_attrs(), core._get_amp_op_list
    else:
        return None  # the static programs of Paddle 2.6 are rewritten when they are complete
    if state._amp_level == core.AmpLevel.O0:
        return None
    _, black = lists()
    return state._amp_dtype if black.isdisjoint(names) else "float32"


def cast(value: Any, dtype: str) -> Any:
    """Return a tensor in the type; as it is when auto_cast would not touch its own, or it is None.

    Its gradient comes back in the type that the tensor had.
    """
    if value is None or _check.dtype_name(value) not in {*_CASTABLE} - {dtype}:
        return value
    return value.astype(dtype)


def in_float32(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function with float32 in the place of half types, and with auto_cast off."""
    with paddle.amp.auto_cast(enable=False):
        return function(
            *(cast(arg, "float32") if isinstance(arg, _check.TENSORS) else arg for arg in args)
        )

"""Checks of arguments, each with the same form of message: operator: argument: expected, got."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import paddle

TENSORS = tuple(
    kind
    for kind in (
        paddle.Tensor,
        paddle.static.Variable,
        getattr(getattr(paddle, "pir", None), "Value", None),
    )
    if kind is not None
)

# The operators' integer attributes.
_INT32_MIN = -(2**31)
_INT32_MAX = 2**31 - 1

# By Paddle's own objects: the names that Paddle makes of them call bfloat16 "uint16". A list of
# pairs, since SOT cannot follow a look-up by dtype and would split the graph.
_DTYPES = [
    (getattr(paddle, name), name)
    for name in (
        "float32",
        "float64",
        "float16",
        "bfloat16",
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "complex64",
        "complex128",
    )
]


def fail(
    op: str, argument: str, expected: str, got: object, error: type[Exception] = ValueError
) -> NoReturn:
    """Raise the error for one argument."""
    raise error(f"{op}: {argument}: expected {expected}, got {got}")


def tensor(op: str, argument: str, value: Any) -> None:
    """Check that an argument is a tensor of any graph mode."""
    if not isinstance(value, TENSORS):
        fail(op, argument, "a Tensor", type(value).__name__, TypeError)


def dtype_name(value: Any) -> str:
    """Return a tensor's element type as a name like "bfloat16"."""
    kind = value.dtype
    for known, name in _DTYPES:
        if kind is known or kind == known:  # the comparison alone takes 0.4 us
            return name
    return str(kind)


def dtype(op: str, argument: str, value: Any, allowed: Sequence[str]) -> None:
    """Check a tensor's element type against a list of names."""
    name = dtype_name(value)
    if name not in allowed:
        fail(op, argument, f"dtype {_alternatives(allowed)}", name, TypeError)


def rank(op: str, argument: str, value: Any, expected: int, layout: str = "") -> None:
    """Check how many dimensions a tensor has; `layout` names them, like "[N, C, H, W]"."""
    if len(value.shape) != expected:
        described = f"{expected} dimensions {layout}".rstrip()
        fail(op, argument, described, f"shape {list(value.shape)}")


def shape(
    op: str, argument: str, value: Any, expected: Sequence[int | None], layout: str = ""
) -> None:
    """Check a tensor's shape.

    An expected size of None or -1 admits any size, and so does a size of the tensor that is -1,
    which a static graph does not know yet.
    """
    got = list(value.shape)
    if got == expected or len(got) == len(expected) and all(map(_agree, got, expected)):
        return
    wanted = ", ".join("any" if _unknown(size) else str(size) for size in expected)
    fail(op, argument, f"shape [{wanted}] {layout}".rstrip(), got)


def broadcastable(op: str, argument: str, value: Any, target: Sequence[int]) -> None:
    """Check that a tensor's shape broadcasts to a target shape, not the other way round."""
    got = list(value.shape)
    tail = list(target)[len(target) - len(got) :]
    if len(got) > len(target) or not all(a == 1 or _agree(a, b) for a, b in zip(got, tail)):
        fail(op, argument, f"a shape that broadcasts to {list(target)}", got)


def choice(op: str, argument: str, value: Any, options: Sequence[str]) -> None:
    """Check that a value is one of a few names."""
    if not isinstance(value, str) or value not in options:
        fail(op, argument, _alternatives([repr(option) for option in options]), _short(value))


def flag(op: str, argument: str, value: Any) -> bool:
    """Return a value that must be True or False."""
    if not isinstance(value, bool):
        fail(op, argument, "True or False", _short(value), TypeError)
    return value


def integer(op: str, argument: str, value: Any, minimum: int | None = None) -> int:
    """Return a value that must be an integer, of at least `minimum`."""
    number = _index(value)
    if number is None:
        fail(op, argument, "an integer", _short(value), TypeError)
    _bounded(op, argument, [number], minimum)
    return number


def integers(
    op: str, argument: str, value: Any, counts: Sequence[int], minimum: int | None = None
) -> list[int]:
    """Return a value that must be one integer or a list of them, as a list.

    Args:
        op: name of the operator.
        argument: name of the argument.
        value: the integer, or the list or tuple.
        counts: lengths that a list may have.
        minimum: smallest integer admitted.

    Returns:
        The list as it was given; a single integer as a list of one.
    """
    single = _index(value)
    numbers = [single] if single is not None else _indices(value)
    lengths = _alternatives([str(count) for count in counts])
    expected = f"an integer or a list of {lengths} integers"
    if numbers is None:
        fail(op, argument, expected, _short(value), TypeError)
    if single is None and len(numbers) not in counts:
        fail(op, argument, expected, _short(value))
    _bounded(op, argument, numbers, minimum)
    return numbers


def pair(op: str, argument: str, value: Any, minimum: int | None = None) -> list[int]:
    """Return [height, width] of a value that may be one integer for both."""
    numbers = integers(op, argument, value, (2,), minimum)
    return numbers * 2 if len(numbers) == 1 else numbers


def paddings(op: str, argument: str, value: Any) -> list[int]:
    """Return [top, bottom, left, right] of a value that may be one, two or four integers."""
    sizes = integers(op, argument, value, (2, 4), minimum=0)
    if len(sizes) == 1:
        return sizes * 4
    if len(sizes) == 2:
        return [sizes[0], sizes[0], sizes[1], sizes[1]]
    return sizes


def _bounded(op: str, argument: str, numbers: list[int], minimum: int | None) -> None:
    """Check that integers are neither below `minimum` nor too large for the operators' 32 bits."""
    # Paddle 2.6 silently makes 0 of an attribute that does not fit.
    for number in numbers:
        if minimum is not None and number < minimum:
            fail(op, argument, f"an integer of at least {minimum}", number)
        if not _INT32_MIN <= number <= _INT32_MAX:
            fail(op, argument, "an integer of 32 bits", number)


def _short(value: Any) -> str:
    """Return a value as it would be typed, or the name of its type when that would be long."""
    text = repr(value)
    return text if len(text) <= 60 else type(value).__name__


def _index(value: Any) -> int | None:
    """Return an integer of any kind as a Python int, or None for everything else."""
    # By type and not by operator.index, which would make SOT split the graph. A bool is an int.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, np.integer) else None


def _indices(value: Any) -> list[int] | None:
    """Return the integers of a list or tuple, or None when it is not a list of integers."""
    if not isinstance(value, (list, tuple)):
        return None
    numbers = [_index(item) for item in value]
    return None if None in numbers else numbers


def _unknown(size: int | None) -> bool:
    """Return whether a size stands for any size."""
    return size is None or size == -1


def _agree(got: int, expected: int | None) -> bool:
    """Return whether two sizes can be the same."""
    return _unknown(got) or _unknown(expected) or got == expected


def _alternatives(names: Iterable[str]) -> str:
    """Return "a", "a or b", "a, b or c"."""
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else last

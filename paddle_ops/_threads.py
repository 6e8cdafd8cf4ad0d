"""How many threads the CPU kernels use."""

from __future__ import annotations

import operator
import os

# The kernels read this variable at each call, so the setting reaches every library that holds
# them, compiled ahead or just in time, and child processes too.
_VARIABLE = "PADDLE_OPS_NUM_THREADS"


def set_num_threads(n: int) -> None:
    """Set how many threads the CPU kernels use, in this process and its later children.

    Args:
        n: number of threads, at least 1.
    """
    try:
        count = operator.index(n)
    except TypeError:
        raise TypeError(f"set_num_threads: n: expected an integer, got {n!r}") from None
    if count < 1:
        raise ValueError(f"set_num_threads: n: expected at least 1, got {count}")
    os.environ[_VARIABLE] = str(count)


def get_num_threads() -> int:
    """Return how many threads the CPU kernels use: by default, the CPUs this process may run on."""
    text = os.environ.get(_VARIABLE, "")
    if text.isdecimal() and int(text) > 0:
        return int(text)
    return len(os.sched_getaffinity(0))

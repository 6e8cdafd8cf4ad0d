"""How many threads the CPU kernels use."""

from __future__ import annotations

import operator
import os

# The kernels read this variable at each call, so the setting reaches every library that holds
# them, compiled ahead or just in time, and child processes too.
_VARIABLE = "PADDLE_OPS_NUM_THREADS"

# Forked children are, as a rule, the workers of a DataLoader, one for each CPU. And OpenMP's
# threads do not survive a fork: a child that starts its own, where the parent had some, can hang.
os.register_at_fork(after_in_child=lambda: os.environ.setdefault(_VARIABLE, "1"))


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
    """Return how many threads the CPU kernels use.

    By default the CPUs that this process may run on, and one in a forked child. Calls of
    deform_conv2d that run at the same time, from several Python threads, share that number.
    """
    text = os.environ.get(_VARIABLE, "")
    if text.isdecimal() and int(text) > 0:
        return int(text)
    return len(os.sched_getaffinity(0))

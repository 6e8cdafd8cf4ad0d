"""Every test starts in dynamic mode, with the thread count and the random state of the start."""

import os
import sys
from pathlib import Path

import jit_build
import numpy as np
import paddle
import pytest

# For tools and examples. At the end: an installed paddle_ops stays the one that is tested.
sys.path.append(str(Path(__file__).resolve().parents[1]))

THREADS = "PADDLE_OPS_NUM_THREADS"


@pytest.fixture(autouse=True)
def clean_state():
    """Puts back what a test may have left changed."""
    paddle.disable_static()
    threads = os.environ.get(THREADS)
    state = np.random.get_state()
    np.random.seed(0)
    yield
    np.random.set_state(state)
    paddle.disable_static()
    if threads is None:
        os.environ.pop(THREADS, None)
    else:
        os.environ[THREADS] = threads


@pytest.fixture(scope="session")
def jit_cache(tmp_path_factory):
    """A cache of the JIT with one build of the operators."""
    root = tmp_path_factory.mktemp("extensions")
    jit_build.build(root)
    return root

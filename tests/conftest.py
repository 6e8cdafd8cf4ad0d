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
# Where the tests of functions and layers run, each of them on all.
DEVICES = ["cpu"]
if paddle.is_compiled_with_cuda() and paddle.device.cuda.device_count() > 0:
    DEVICES.append("gpu")


def pytest_generate_tests(metafunc):
    """Repeats the tests of the operators where Paddle has a GPU."""
    if len(DEVICES) > 1 and metafunc.definition.path.parent.name in ("functional", "nn"):
        metafunc.fixturenames.append("device")
        metafunc.parametrize("device", DEVICES, indirect=True)


@pytest.fixture
def device(request):
    """Makes tensors and programs without a place of their own go to a device."""
    paddle.set_device(request.param)


@pytest.fixture(autouse=True)
def clean_state():
    """Puts back what a test may have left changed."""
    paddle.disable_static()
    paddle.set_device("cpu")
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

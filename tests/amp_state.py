"""paddle.amp on the CPU: the state that auto_cast, decorate and GradScaler have on a GPU."""

import contextlib
import sys
from unittest import mock

import numpy as np
import paddle
import pytest
from paddle.base import core
from paddle.base.framework import _dygraph_tracer

DTYPES = {"float16": np.float16, "bfloat16": np.uint16}
each_dtype = pytest.mark.parametrize("dtype", DTYPES)
needs_pir = pytest.mark.skipif(
    not hasattr(core, "_get_amp_attrs"),
    reason="Paddle 2.6 rewrites complete programs, it has no auto_cast while one is built",
)


@contextlib.contextmanager
def casting(level, dtype, black=()):
    """auto_cast as it is on a GPU."""
    tracer = _dygraph_tracer()
    with paddle.amp.auto_cast(level=level, dtype=dtype, custom_black_list=set(black)):
        assert tracer._amp_level == core.AmpLevel.O0  # if not, the lines below are not needed
        tracer._amp_level, tracer._amp_dtype = getattr(core.AmpLevel, level), dtype
        yield


@contextlib.contextmanager
def as_on_a_gpu(module):
    """What Paddle asks before it turns a part of AMP off on the CPU."""
    place = mock.Mock(
        is_gpu_place=lambda: True, is_xpu_place=lambda: False, is_custom_place=lambda: False
    )
    answers = {
        "_dygraph_tracer": lambda: mock.Mock(_expected_place=place),
        "_is_gpu_float16_supported": lambda: True,
        "_is_gpu_bfloat16_supported": lambda: True,
    }
    with mock.patch.multiple(sys.modules[f"paddle.amp.{module}"], create=True, **answers):
        yield


def name_of(value):
    return str(value.dtype).split(".")[-1].lower()


def by_paddle(array, dtype):
    """An array in a half type as Paddle casts it: 2.6 cuts on the CPU where 3 rounds."""
    return paddle.to_tensor(array).astype(dtype).numpy()


def halved(data, dtype):
    """x, weight and bias in a half type; offset and mask as they are."""
    narrow = ("x", "weight", "bias")
    return {n: by_paddle(a, dtype) if n in narrow else a for n, a in data.items()}

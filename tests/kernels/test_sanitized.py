"""The kernels without Paddle, built with sanitizers: no access is outside of an array."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import kernels

SCRIPT = Path(__file__).with_name("sanitized.py")


@pytest.mark.jit
def test_no_kernel_leaves_its_arrays(tmp_path):
    kernels.build(tmp_path, sanitize=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": kernels.sanitizer_library(),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself leaves memory behind
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "nothing outside of an array\n"

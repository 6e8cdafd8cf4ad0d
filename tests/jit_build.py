"""The one build that all tests of the JIT share, as a training script would make it."""

import os
import subprocess
import sys

from paddle_ops import _build, jit

USE = """
import paddle
x, offset, weight = paddle.ones([1, 2, 3, 4]), paddle.zeros([1, 2, 3, 4]), paddle.ones([1, 2, 1, 1])
assert (paddle_ops.deform_conv2d(x, offset, weight).numpy() == 2).all()
"""
# The form that the README shows, into the folder where jit.load() looks.
PLAIN = """
import sys, paddle_ops
from paddle.utils.cpp_extension import load
load(
    name="paddle_ops_jit",
    sources=paddle_ops.jit.sources(),
    extra_cxx_cflags=paddle_ops.jit.cxx_flags(),
    extra_cuda_cflags=paddle_ops.jit.cuda_flags(),
    extra_ldflags=paddle_ops.jit.link_flags(),
    extra_include_paths=paddle_ops.jit.include_paths(),
    build_directory=sys.argv[1],
)
"""


def python(code, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        env={**os.environ, **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def build(root):
    """Compiles into the folder where jit.load(build_directory=root) will look."""
    folder = jit._folder("paddle_ops_jit", root, _build.record())
    folder.mkdir()
    python(PLAIN + USE, folder, PADDLE_OPS_JIT="1")

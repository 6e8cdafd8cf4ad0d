"""Compiling the operators from training code: one build, which all tests of this file share."""

import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import paddle_ops
from paddle_ops import _build, _lib, jit

ROOT = Path(__file__).resolve().parents[1]
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
    extra_ldflags=paddle_ops.jit.link_flags(),
    extra_include_paths=paddle_ops.jit.include_paths(),
    build_directory=sys.argv[1],
)
"""
SHORT = """
import sys, paddle_ops
paddle_ops.jit.load(build_directory=sys.argv[1])
paddle_ops.jit.load(build_directory="/never/looked/at")
assert paddle_ops._lib.kernels().__file__.endswith("paddle_ops_jit.so")
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


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache with one build, made by Paddle's own entry as a training script would."""
    root = tmp_path_factory.mktemp("extensions")
    folder = jit._folder("paddle_ops_jit", root, _build.record())
    folder.mkdir()
    python(PLAIN + USE, folder, PADDLE_OPS_JIT="1")
    return root


@pytest.mark.jit
def test_the_plain_load_builds_working_operators(cache):
    assert len(list(cache.rglob("paddle_ops_jit.so"))) == 1


@pytest.mark.jit
def test_load_finds_an_earlier_build(cache):
    (library,) = cache.rglob("paddle_ops_jit.so")
    built = library.stat().st_mtime_ns
    python(SHORT + USE, cache, PADDLE_OPS_JIT="1")
    assert (library.parent / _build.RECORD).is_file()
    started = time.monotonic()
    python(SHORT + USE, cache, PADDLE_OPS_JIT="1")
    assert time.monotonic() - started < 30
    assert library.stat().st_mtime_ns == built
    assert list(cache.rglob("paddle_ops_jit.so")) == [library]


def test_all_sources_are_listed():
    names = {Path(source).relative_to(_build.csrc()) for source in _build.sources()}
    assert names == {path.relative_to(ROOT / "csrc") for path in (ROOT / "csrc").rglob("*.cc")}
    assert _build.sources() == sorted(_build.sources())


def test_a_changed_header_is_another_build(tmp_path):
    package = tmp_path / "paddle_ops"
    package.mkdir()
    shutil.copy(_build.__file__, package)
    shutil.copytree(_build.csrc(), tmp_path / "csrc")
    copy = runpy.run_path(str(package / "_build.py"))
    assert copy["cxx_flags"]() == _build.cxx_flags()
    header = sorted((tmp_path / "csrc" / "kernels").rglob("*.h"))[0]
    header.write_text(header.read_text() + "// changed\n")
    assert copy["cxx_flags"]() != _build.cxx_flags()


@pytest.mark.skipif(_lib.library() is None, reason="the operators come from another library")
def test_a_plain_load_leaves_registered_operators_alone(tmp_path):
    with pytest.warns(UserWarning, match="registered already"):
        assert [Path(source).name for source in paddle_ops.jit.sources()] == ["_nothing.cc"]
    python(PLAIN + USE, tmp_path, PADDLE_OPS_JIT="0")

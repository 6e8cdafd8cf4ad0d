"""Compiling the operators from training code."""

import runpy
import shutil
import time
from pathlib import Path

import pytest
from jit_build import PLAIN, USE, python

import paddle_ops
from paddle_ops import _build, _lib

ROOT = Path(__file__).resolve().parents[1]
SHORT = """
import sys, paddle_ops
paddle_ops.jit.load(build_directory=sys.argv[1])
paddle_ops.jit.load(build_directory="/never/looked/at")
assert paddle_ops._lib.kernels().__file__.endswith("paddle_ops_jit.so")
"""


@pytest.mark.jit
def test_the_plain_load_builds_working_operators(jit_cache):
    assert len(list(jit_cache.rglob("paddle_ops_jit.so"))) == 1


@pytest.mark.jit
def test_load_finds_an_earlier_build(jit_cache):
    (library,) = jit_cache.rglob("paddle_ops_jit.so")
    built = library.stat().st_mtime_ns
    python(SHORT + USE, jit_cache, PADDLE_OPS_JIT="1")
    assert (library.parent / _build.RECORD).is_file()
    started = time.monotonic()
    python(SHORT + USE, jit_cache, PADDLE_OPS_JIT="1")
    assert time.monotonic() - started < 30
    assert library.stat().st_mtime_ns == built
    assert list(jit_cache.rglob("paddle_ops_jit.so")) == [library]


def test_all_sources_are_listed():
    names = {Path(source).relative_to(_build.csrc()) for source in _build.sources()}
    suffixes = {".cc", ".cu"} if _build.uses_cuda() else {".cc"}
    files = [path for path in (ROOT / "csrc").rglob("*") if path.suffix in suffixes]
    assert names == {path.relative_to(ROOT / "csrc") for path in files}
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

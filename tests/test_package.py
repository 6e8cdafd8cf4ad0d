"""How the package finds, refuses and loads its compiled operators."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import paddle_ops
from paddle_ops import _build, _lib

ROOT = Path(__file__).resolve().parents[1]
# Ends with where the operators came from, or with the error in place of it.
IMPORT = """
import paddle_ops
try:
    from paddle_ops import deform_conv2d
    print("library", paddle_ops._lib.library())
except ImportError as error:
    print("refused", error)
"""


def python(code, path=None, cwd="/", **environment):
    """Runs code in a new process and returns what it prints."""
    kept = {name: value for name, value in os.environ.items() if name != "PADDLE_OPS_JIT"}
    if path is not None:
        kept["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**kept, **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def bare(tmp_path):
    """A copy of the package and its sources as in a checkout where nothing has been built."""
    shutil.copytree(
        Path(paddle_ops.__file__).parent,
        tmp_path / "paddle_ops",
        ignore=shutil.ignore_patterns(_build.BINARY, _build.RECORD, "csrc", "__pycache__"),
    )
    shutil.copytree(_build.csrc(), tmp_path / "csrc")
    return tmp_path


@pytest.fixture
def changed(bare):
    """Such a copy with sources that no installed binary was built from."""
    with open(bare / "csrc" / "changed.h", "w") as header:
        header.write("// changed\n")
    return bare


def put_binary(checkout, **record):
    """Puts a file in the binary's place that would not survive being loaded."""
    (checkout / "paddle_ops" / _build.BINARY).write_text("not a library")
    if record:
        (checkout / "paddle_ops" / _build.RECORD).write_text(
            json.dumps({**_build.record(), **record})
        )


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", paddle_ops.__version__)
    try:
        installed = importlib.metadata.version("paddle-ops")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is used from a checkout")
    assert paddle_ops.__version__ == installed


@pytest.mark.skipif(_lib.library() is None, reason="the operators come from another library")
@pytest.mark.parametrize("cwd", [ROOT, ROOT / "tests", "/"], ids=["checkout", "tests", "root"])
def test_import_works_from_any_directory(cwd):
    assert python(IMPORT, cwd=cwd).startswith("library /")


def test_a_checkout_uses_the_installed_binary_of_the_same_sources(bare):
    binary = _lib.library()
    if binary is None or "site-packages" not in binary.parts:
        pytest.skip("no binary is installed where a copy of the checkout would look for it")
    said = python(IMPORT, path=bare)
    assert said.startswith("library /")
    assert str(bare) not in said


def test_without_a_binary_the_error_says_what_to_do(changed):
    said = python(IMPORT, path=changed)
    assert said.startswith("refused paddle_ops: no compiled operators for Paddle ")
    assert "pip install --force-reinstall --no-deps" in said
    assert "paddle_ops.jit.load()" in said


def test_the_error_names_the_checkout_to_install(changed):
    (changed / "setup.py").write_text("")
    assert f"--no-deps {changed}\n" in python(IMPORT, path=changed)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"paddle": "9.8.7"}, "it was built for Paddle 9.8.7 "),
        ({"commit": "0123456789abcdef"}, "commit 01234567"),
        ({"cuda": "99.1"}, "(CUDA 99.1, "),
        ({"python": "3.99"}, "and Python 3.99"),
    ],
)
def test_a_binary_built_for_something_else_is_refused(changed, record, reason):
    put_binary(changed, **record)
    said = python(IMPORT, path=changed)
    assert f"{changed / 'paddle_ops' / _build.BINARY}: it was built for " in said
    assert reason in said


def test_a_binary_without_record_is_refused(changed):
    put_binary(changed)
    assert "lacks its record" in python(IMPORT, path=changed)


def test_a_binary_that_cannot_be_loaded_is_reported(changed):
    put_binary(changed, python=_build.runtime()["python"])
    assert "the library cannot be loaded" in python(IMPORT, path=changed)


def test_the_package_imports_without_operators(changed):
    said = python(
        "import paddle_ops; print(len(paddle_ops.jit.sources()), 'nn' in dir(paddle_ops))",
        path=changed,
    )
    assert said.split() == [str(len(_build.sources())), "True"]


def test_the_environment_can_ask_for_the_jit():
    said = python(IMPORT, PADDLE_OPS_JIT="1")
    assert said.startswith("refused")
    assert "PADDLE_OPS_JIT is set" in said


def test_sources_travel_with_the_package():
    def contents(folder):
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {path.relative_to(folder): path.read_bytes() for path in files}

    assert contents(_build.csrc()) == contents(ROOT / "csrc")


def test_every_public_name_resolves():
    assert set(paddle_ops.__all__) <= set(dir(paddle_ops))
    for name in paddle_ops.__all__:
        assert getattr(paddle_ops, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        paddle_ops.no_such_name  # noqa: B018


def test_number_of_threads(monkeypatch):
    monkeypatch.delenv("PADDLE_OPS_NUM_THREADS", raising=False)
    assert paddle_ops.get_num_threads() == len(os.sched_getaffinity(0))
    paddle_ops.set_num_threads(3)
    assert paddle_ops.get_num_threads() == 3
    monkeypatch.setenv("PADDLE_OPS_NUM_THREADS", "many")
    assert paddle_ops.get_num_threads() == len(os.sched_getaffinity(0))
    with pytest.raises(ValueError, match="n: expected at least 1, got 0"):
        paddle_ops.set_num_threads(0)
    with pytest.raises(TypeError, match="n: expected an integer, got 1.5"):
        paddle_ops.set_num_threads(1.5)

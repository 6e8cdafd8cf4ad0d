"""Docstrings: complete, and their examples run."""

import doctest
import importlib
import inspect
import pkgutil

import paddle
import pytest

import paddle_ops

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(paddle_ops.__path__, "paddle_ops.")
    if module.name != "paddle_ops._binary"  # for Paddle, not for import
)
# Public names that compute something: all else is read beside what it belongs to.
DOCUMENTED = {
    f"{module}.{name}": value
    for module in (
        "paddle_ops.functional",
        "paddle_ops.nn",
        "paddle_ops.onnx",
        "paddle_ops.porting",
        "paddle_ops.viz",
    )
    for name, value in vars(importlib.import_module(module)).items()
    if not name.startswith("_") and inspect.getmodule(value).__name__.startswith("paddle_ops")
    if inspect.isfunction(value) or inspect.isclass(value)
}


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    if name == "paddle_ops.onnx":
        if paddle.__version__.startswith("2."):
            pytest.skip("Paddle2ONNX needs Paddle 3")
        pytest.importorskip("paddle2onnx", reason="needs pip install 'paddle-ops[onnx]'")
    module = importlib.import_module(name)
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_are_complete(name):
    text = inspect.getdoc(DOCUMENTED[name])
    for part in ("Args:", "Example:", "Source:"):
        assert part in text, f"{name}: its docstring has no {part}"
    assert ">>> " in text

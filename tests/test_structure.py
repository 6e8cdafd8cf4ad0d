"""The rules that keep the tree in the shape that CONTRIBUTING.md describes."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"
PREFIX = "paddle_ops_"
# Which folders of csrc each one may include from.
MAY_INCLUDE = {
    "kernels": {"kernels"},
    "targets": {"kernels", "targets"},
    "binding": {"kernels", "targets", "binding"},
    "pybind": {"kernels", "targets", "pybind"},
}
CXX_SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
CXX = sorted(path for path in CSRC.rglob("*") if path.suffix in CXX_SUFFIXES)
TEST_CXX = sorted(path for path in (ROOT / "tests").rglob("*") if path.suffix in CXX_SUFFIXES)
PYTHON = [ROOT / "setup.py"] + sorted(
    path
    for folder in ("paddle_ops", "tests", "tools", "examples")
    for path in (ROOT / folder).rglob("*.py")
)


def name_of(path):
    return str(path.relative_to(ROOT))


def code_of(path):
    """The text of a C++ file without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def includes_of(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', code_of(path), flags=re.MULTILINE)


def own_includes_of(path):
    return [target for target in includes_of(path) if target.split("/")[0] in MAY_INCLUDE]


def operators():
    """The operators, by the only place that has to name them."""
    text = "".join(path.read_text() for path in (CSRC / "binding").glob("*.cc"))
    return sorted(name[len(PREFIX) :] for name in re.findall(r"PD_BUILD_OP\((\w+)\)", text))


each_cxx = pytest.mark.parametrize("path", CXX, ids=name_of)
each_python = pytest.mark.parametrize("path", PYTHON, ids=name_of)


def test_the_operators_are_found():
    assert operators() == ["deform_conv2d", "sigmoid_cross_entropy_with_logits"]


def test_registered_names_have_the_prefix():
    for path in (CSRC / "binding").glob("*.cc"):
        for name in re.findall(r"PD_BUILD_\w*OP\((\w+)\)", path.read_text()):
            assert name.startswith(PREFIX), f"{name_of(path)}: {name}"


@pytest.mark.parametrize("op", operators())
@pytest.mark.parametrize(
    "place",
    [
        "csrc/kernels/{}.h",
        "csrc/binding/{}.cc",
        "csrc/pybind/{}_py.cc",
        "paddle_ops/functional/{}.py",
        "tests/functional/test_{}.py",
        "tests/reference/{}.py",
    ],
)
def test_an_operator_has_one_name_in_every_tree(op, place):
    assert (ROOT / place.format(op)).is_file()


@each_cxx
def test_includes_go_one_way(path):
    folder = path.relative_to(CSRC).parts[0]
    for target in own_includes_of(path):
        assert target.split("/")[0] in MAY_INCLUDE[folder], target
        assert (CSRC / target).is_file(), target


@each_cxx
def test_only_the_binding_knows_paddle_and_only_pybind_knows_python(path):
    folder = path.relative_to(CSRC).parts[0]
    for target in includes_of(path):
        first = target.split("/")[0]
        assert first != "paddle" or folder == "binding", target
        assert first not in {"pybind11", "Python.h", "numpy"} or folder == "pybind", target
        # Own headers are named from csrc, so that a moved file cannot find another by accident.
        assert "/" in target or f'"{target}"' not in path.read_text(), target


@pytest.mark.parametrize("path", [p for p in CXX if CSRC / "kernels" in p.parents], ids=name_of)
def test_kernels_neither_throw_nor_print_nor_allocate(path):
    found = re.findall(
        r"\bthrow\b|\bprintf\b|\bstd::c(?:out|err)\b|\bnew\s+\w|\b[mc]alloc\b|\bstd::(?:vector|string)\b",
        code_of(path),
    )
    assert found == []


def test_the_include_graph_has_no_cycle():
    graph = {path.relative_to(CSRC).as_posix(): own_includes_of(path) for path in CXX}
    done = set()

    def visit(name, above):
        assert name not in above, " -> ".join([*above, name])
        if name not in done:
            for target in graph.get(name, []):
                visit(target, [*above, name])
            done.add(name)

    for name in graph:
        visit(name, [])


@pytest.mark.parametrize("suffix", [".cc", ".cu"])
def test_compiled_files_have_unique_stems(suffix):
    """Paddle 2.6 writes all object files into one folder, by stem."""
    stems = [path.stem for path in CXX if path.suffix == suffix]
    assert sorted(stems) == sorted(set(stems))


@pytest.mark.parametrize("path", CXX + TEST_CXX, ids=name_of)
def test_headers_are_guarded(path):
    if path.suffix in {".h", ".cuh"}:
        assert path.read_text().startswith("#pragma once\n")


@pytest.mark.parametrize("path", CXX + TEST_CXX + PYTHON, ids=name_of)
def test_files_are_short_and_finished(path):
    text = path.read_text()
    assert text.count("\n") < 400
    assert not re.search(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b", text)


@each_python
def test_functions_are_short(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                length -= node.body[0].end_lineno - node.body[0].lineno + 1
            assert length < 60, f"{node.name}: {length} lines without its docstring"


def test_hooks_and_lint_use_the_same_tools():
    pinned = re.compile(r"\b(?:ruff|clang-format)==[\w.]+")
    hooks = set(pinned.findall((ROOT / ".pre-commit-config.yaml").read_text()))
    assert hooks == set(pinned.findall((ROOT / "pyproject.toml").read_text()))

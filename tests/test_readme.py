"""The documents keep their word: examples run, commands and files exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import paddle
import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [code for page in PAGES for code in blocks(page.read_text(), "python")]
COMPILING = [code for code in EXAMPLES if re.search(r"^(paddle_ops\.jit\.)?load\(", code, re.M)]


def run(code, folder, **environment):
    """Runs an example in a process of its own; its prints must say what their comments say."""
    script = Path(folder) / "example.py"  # to_static reads the source
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    expected = re.findall(r"^print\(.*\)  # (.*)$", code, flags=re.MULTILINE)
    assert expected
    # Paddle's build has things to say, too.
    assert done.stdout.splitlines()[-len(expected) :] == expected


def test_the_readme_has_its_examples():
    assert len(blocks(README, "python")) == 7
    assert len(COMPILING) == 2


@pytest.mark.parametrize("code", [code for code in EXAMPLES if code not in COMPILING])
def test_an_example_runs(code, tmp_path):
    if paddle.__version__.startswith("2.") and re.search(r"net\.json|paddle_ops\.onnx", code):
        pytest.skip("an example for Paddle 3: its files of saved models, or Paddle2ONNX")
    if "paddle_ops.onnx" in code:
        pytest.importorskip("paddle2onnx", reason="needs pip install 'paddle-ops[onnx]'")
    run(code, tmp_path)


@pytest.mark.jit
@pytest.mark.parametrize("code", COMPILING)
def test_an_example_that_compiles_runs(code, tmp_path, jit_cache):
    # Each entry looks where the other tests' build is: the short one below the root of the cache,
    # the plain one in the folder that it is given.
    short = "jit.load(" in code
    (build,) = jit_cache.glob("paddle_ops_jit-*")
    libraries = list(jit_cache.rglob("*.so"))
    folder = jit_cache if short else build
    run(code, tmp_path, PADDLE_OPS_JIT="1", PADDLE_EXTENSION_DIR=str(folder))
    assert list(jit_cache.rglob("*.so")) == libraries


@pytest.mark.skipif(not (ROOT / "Makefile").is_file(), reason="not a checkout")
@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_the_commands_exist(text):
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    named = re.findall(r"(?:`|^)make ([\w-]+)", text, flags=re.MULTILINE)
    assert named
    assert set(named) <= set(targets)


def test_the_readme_starts_with_the_two_commands():
    assert [line.split("#")[0].strip() for line in blocks(README, "sh")[0].splitlines()] == [
        "make demo",
        "make test",
    ]


def test_the_files_of_the_tree_map_exist():
    """Each line of the map names paths below the folder of the last line that is not indented."""
    folder, named = ROOT, []
    for line in blocks(CONTRIBUTING, "text")[0].splitlines():
        paths = line.split("  ")[0] if not line.startswith(" ") else line.strip().split("  ")[0]
        base = folder if line.startswith(" ") else ROOT
        named += [base / path for path in paths.split()]
        if not line.startswith(" "):
            folder = ROOT / paths.split()[0]
    assert len(named) > 20
    assert [str(path) for path in named if "<" not in path.name and not path.exists()] == []

"""Runs Python code in a process of its own, for what may end the process it runs in."""

import os
import pathlib
import subprocess
import sys
import tempfile

TESTS = str(pathlib.Path(__file__).parent)


def run(code, timeout=120, **environment):
    """Runs `code` and returns what it printed; an AssertionError if the process did not end well.

    A segmentation fault or an abort shows as a negative or non-zero return code.
    """
    paths = [TESTS] + [p for p in sys.path if p]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "child_process.py"  # to_static reads the source
        script.write_text(code)
        result = subprocess.run(
            [sys.executable, str(script)],
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    assert result.returncode == 0, (
        f"the process ended with {result.returncode}\n{result.stdout[-2000:]}\n"
        f"{result.stderr[-4000:]}"
    )
    return result.stdout


def run_module(name, timeout=120, **environment):
    """Runs `python -m name` away from the checkout; returns the finished process."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", name],
        env={**os.environ, **environment},
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        timeout=timeout,
    )

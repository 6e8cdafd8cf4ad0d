"""Runs Python code in a process of its own, for what may end the process it runs in."""

import os
import pathlib
import subprocess
import sys

TESTS = str(pathlib.Path(__file__).parent)


def run(code, timeout=120, **environment):
    """Runs `code` and returns what it printed; an AssertionError if the process did not end well.

    A segmentation fault or an abort shows as a negative or non-zero return code.
    """
    paths = [TESTS] + [p for p in sys.path if p]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
    result = subprocess.run(
        [sys.executable, "-c", code],
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

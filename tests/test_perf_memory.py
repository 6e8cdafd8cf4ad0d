"""tools.perf --memory: the peak of a call beyond its inputs and results."""

import json
from pathlib import Path

import child
import pytest

from tools.perf import __main__ as command_line

needs_clear_refs = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="this system does not reset the peak"
)
# In a process of its own, as the tool does: what was allocated before must not serve again.
HUNGRY = """
import numpy as np
from tools.perf import memory, providers

class Hungry(providers.PaddleOps):
    def forward(self):
        block = np.ones(8 * 2**20)
        results = super().forward()
        assert block[0] == 1
        return results

for provider in (providers.PaddleOps, Hungry):
    print(memory.measure_here(provider, "E2", "forward", "normal", "float32", 1))
"""


@needs_clear_refs
def test_memory_of_a_call_is_its_peak():
    frugal, hungry = map(int, child.run(HUNGRY).split()[-2:])
    assert frugal < 2**24
    # the system counts pages in batches
    assert abs(hungry - 2**26) < 2**22


@needs_clear_refs
def test_memory_column(tmp_path, capsys):
    file = tmp_path / "result.json"
    arguments = "--case C2 --provider paddle_ops --forward --repeat 1 --threads 1 --memory --json"
    assert command_line.main([*arguments.split(), str(file)]) == 0
    assert "paddle_ops extra MB" in capsys.readouterr().out
    measured = json.loads(file.read_text())["measurements"][0]["providers"]["paddle_ops"]
    assert 0 <= measured["extra_bytes"] < 2**26

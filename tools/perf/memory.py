"""Peak memory of one call beyond its tensors, measured in a process of its own.

What a library keeps from earlier calls would hide what it needs, so each measurement starts anew:
python -m tools.perf.memory CASE PROVIDER DIRECTION OFFSETS DTYPE THREADS prints the bytes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.perf.cases import CASES, ITEM_BYTES
from tools.perf.provider import Provider

# Small, to load libraries, compile and start threads before the measurement.
_FIRST = {"deform_conv2d": "C2", "sigmoid_cross_entropy_with_logits": "E2"}


def extra_bytes(
    case: str, provider: str, direction: str, offsets: str, dtype: str, threads: int
) -> int | None:
    """Return the peak beyond inputs and results, or None where the system does not tell."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    command = [sys.executable, "-m", "tools.perf.memory"]
    command += [case, provider, direction, offsets, dtype, str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def measure_here(
    provider: type[Provider], name: str, direction: str, offsets: str, dtype: str, threads: int
) -> int:
    """Measure in this process, which should not have computed anything yet."""
    case = CASES[name]
    first = CASES[_FIRST[case.op]]
    provider(first, first.tensors(offsets, dtype), dtype, threads).run(direction)
    loaded = provider(case, case.tensors(offsets, dtype), dtype, threads)
    # makes the present size the peak
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    results = loaded.run(direction)
    peak = _status("VmHWM") - before
    size = sum(value.size for value in loaded.arrays(results).values()) * ITEM_BYTES[dtype]
    return max(0, peak - size)


def _status(field: str) -> int:
    """Return one of the sizes in /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


if __name__ == "__main__":
    from tools.perf.providers import PROVIDERS

    case_name, provider_name, *how, thread_count = sys.argv[1:]
    print(measure_here(PROVIDERS[provider_name], case_name, *how, int(thread_count)))

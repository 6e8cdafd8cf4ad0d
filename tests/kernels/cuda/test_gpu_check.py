"""tools.gpu_check without a GPU: the same checks, on the emulated kernels."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from kernels.cuda import emulator
from paddle_ops import _lib
from tools.gpu_check import __main__ as command_line
from tools.gpu_check import check, timing
from tools.gpu_check.device import Host
from tools.perf.cases import CASES, DIRECTIONS, FORWARD

pytestmark = [emulator.needs_nvcc, pytest.mark.jit]

CPU = _lib.kernels()
SMALL = {case.name: case for case in check.SMALL}


@pytest.fixture(scope="module", params=SMALL.values(), ids=SMALL)
def emulated(request):
    """(case, the module that launches its kernels)."""
    case = request.param
    arch = "sm_90" if case.op == "deform_conv2d" else "sm_80"  # as in the operators' own tests
    return case, emulator.operator(case.op, arch=arch)


@pytest.mark.parametrize("dtype", check.DTYPES)
def test_right_kernels_pass(emulated, dtype):
    case, kernels = emulated
    every = list(check.variants(case)) if dtype == "float32" else [{}]
    for options in every:
        verdict = check.verify(case, dtype, options, kernels, CPU, Host())
        assert verdict.right, verdict
        wanted = {"out", *case.inputs()} - {"label"}
        assert set(verdict.errors) == wanted | (
            {"repeated"} if "deterministic" in options else set()
        )


@pytest.mark.parametrize("case", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("fault", [1.00001, np.nan])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_wrong_kernels_do_not(case, fault, direction):
    """One element of one result is off, or not a number."""

    def broken(**arguments):
        getattr(CPU, f"{case.op}_{direction}")(**arguments)
        name = "out" if direction == "forward" else "grad_x"
        largest = np.unravel_index(np.abs(arguments[name]).argmax(), arguments[name].shape)
        arguments[name][largest] *= 1 + (fault - 1) * arguments[name].size ** 0.5

    functions = {
        f"{case.op}_{way}": getattr(CPU, f"{case.op}_{way}") for way in ("forward", "backward")
    }
    kernels = SimpleNamespace(**{**functions, f"{case.op}_{direction}": broken})
    verdict = check.verify(case, "float32", {}, kernels, CPU, Host())
    assert not verdict.right
    name = "out" if direction == "forward" else "x"
    assert [n for n, e in verdict.errors.items() if e > check.TOLERANCES["float32"]] == [name]
    assert f"WRONG {case.name} float32" in command_line.show([verdict], [])


def test_results_that_change_are_wrong():
    class Noisy:
        calls = 0

        def deform_conv2d_forward(self, out, **rest):
            Noisy.calls += 1
            CPU.deform_conv2d_forward(out=out, **rest)
            out.reshape(-1)[0] += 1e-9 * Noisy.calls

        def deform_conv2d_backward(self, deterministic, **rest):
            CPU.deform_conv2d_backward(**rest)

    case = SMALL["K1"]
    verdict = check.verify(case, "float64", {"deterministic": True}, Noisy(), CPU, Host())
    assert verdict.errors["repeated"] == float("inf")


def test_the_plan_has_every_type_and_the_shapes_of_the_table():
    planned = command_line.plan(huge=False)
    assert {(c.name, d) for c, d, _ in planned} >= {(c, d) for c in SMALL for d in check.DTYPES}
    assert {c.name for c, _, _ in planned} >= {c.name for c in CASES.values() if not c.huge}
    assert {"B1", "B2"} <= {c.name for c, _, _ in command_line.plan(huge=True)}


class Clock(Host):
    """A device with a clock, that says it is one of the table's GPUs."""

    name = "NVIDIA H200"

    def microseconds(self, call, cold, repeat=1):
        start = time.perf_counter()
        call()
        return 1e6 * (time.perf_counter() - start)


def test_times_and_bounds(monkeypatch):
    monkeypatch.setattr(timing, "torchvisions", lambda *_: {FORWARD: lambda: time.sleep(0.01)})
    row = timing.time_case(SMALL["K1"], "float32", CPU, Clock())
    assert set(row) == {"case", "dtype", *DIRECTIONS}
    assert row[FORWARD]["torchvision_us"] > 1e4
    s2 = CASES["S2"]
    assert timing.bound(s2, FORWARD, "NVIDIA H200") == pytest.approx(s2.flops(FORWARD) / 67e6)
    assert timing.bound(s2, FORWARD, "another") is None
    assert "| K1" in command_line.show([], [row])

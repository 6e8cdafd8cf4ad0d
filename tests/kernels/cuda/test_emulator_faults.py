"""Kernels with one fault each: the emulator has to report it, and where it is."""

import subprocess
import sys

import numpy as np
import pytest

from kernels.cuda import emulator

pytestmark = [emulator.needs_nvcc, pytest.mark.jit]


def floats(count=64):
    return np.zeros(count, np.float32)


def line_of(text, file="faults.cu"):
    """Where a piece of a program stands, as reports name it."""
    lines = (emulator.HERE / "programs" / file).read_text().split("\n")
    found = [n for n, line in enumerate(lines, 1) if text in line]
    assert len(found) == 1, text
    return f"{file}:{found[0]}"


@pytest.fixture(scope="module", params=["ptx", "source"])
def program(request):
    return emulator.build(["programs/faults.cu"], front_end=request.param)


@pytest.fixture(scope="module")
def ptx():
    return emulator.build(["programs/faults.cu"])


@pytest.fixture(scope="module")
def address():
    return emulator.build(["programs/faults.cu"], front_end="source", sanitize="address")


# -- what the engine sees -------------------------------------------------------------------------


def test_divergent_barrier(program):
    with pytest.raises(emulator.Fault, match="40 threads wait, 24 have exited") as caught:
        program.call("launch_divergent_barrier", floats())
    assert "faults.cu:" in str(caught.value)


def test_two_barriers(program):
    with pytest.raises(emulator.Fault, match="threads wait at different barriers"):
        program.call("launch_two_barriers", floats())


def test_mask_names_lanes_that_have_left(program):
    with pytest.raises(emulator.Fault, match="the mask names lane 16, which has exited") as caught:
        program.call("launch_exited_lanes", floats())
    assert line_of("0xffffffffu") in str(caught.value)


def test_mask_without_the_caller(program):
    with pytest.raises(emulator.Fault, match="thread 16: .*does not name the calling lane"):
        program.call("launch_not_in_mask", floats())


@pytest.mark.parametrize("order", emulator.ORDERS)
def test_uninitialised_shared_memory_is_nan(program, order):
    out = floats()
    with program.configured(order=order):
        program.call("launch_uninitialised", out)
    assert np.isnan(out[63])
    assert (out[:63] == 1).all()


def test_much_shared_memory_must_be_asked_for():
    program = emulator.build(["programs/faults.cu"], defines=["-DFRESH"])  # nobody has asked yet
    with pytest.raises(RuntimeError, match="cudaError 1"):
        program.call("launch_much_shared", floats(), 0)
    program.call("launch_much_shared", floats(), 1)


# -- what the PTX front end sees ------------------------------------------------------------------


def test_global_out_of_bounds(ptx):
    with pytest.raises(emulator.Fault, match="out of bounds; it starts 252 bytes into") as caught:
        ptx.call("launch_global_out_of_bounds", floats(63), 63)
    text = str(caught.value)
    assert text.startswith("global_out_of_bounds(float*, long), block (0,0,0): thread 63: ")
    assert text.endswith(f"write of 4 bytes at {line_of('if (threadIdx.x <= count)')}")
    ptx.call("launch_global_out_of_bounds", floats(64), 63)


def test_what_is_no_argument_may_not_be_touched(ptx):
    hidden = floats(63)
    with pytest.raises(emulator.Fault, match="global access out of bounds"):
        ptx.call("launch_global_out_of_bounds", hidden.ctypes.data, 63)


def test_inputs_may_not_be_written(ptx):
    out = floats(64)
    out.flags.writeable = False
    with pytest.raises(emulator.Fault, match="write to the input 'argument 0'"):
        ptx.call("launch_global_out_of_bounds", out, 63)


def test_shared_out_of_bounds(ptx):
    with pytest.raises(emulator.Fault, match="4 bytes at byte 256 of 256") as caught:
        ptx.call("launch_shared_out_of_bounds", floats())
    assert line_of("values[threadIdx.x + 1] = 1;") in str(caught.value)


def test_misaligned(ptx):
    with pytest.raises(emulator.Fault, match="misaligned access: read of 16 bytes") as caught:
        ptx.call("launch_misaligned", floats(100), floats())
    assert line_of("const float4 v") in str(caught.value)


def test_division_by_zero(ptx):
    with pytest.raises(emulator.Fault, match="integer division by zero"):
        ptx.call("launch_division_by_zero", np.zeros(32, np.int32))


@pytest.mark.parametrize("front_end", ["ptx", "source"])
def test_copies_that_nobody_waits_for_do_not_arrive(front_end):
    program = emulator.build(["programs/tensor.cu"], front_end=front_end, defines=["-DBUG_NO_WAIT"])
    a, c = np.ones((16, 64), np.float16), np.zeros((16, 8), np.float32)
    program.call("launch_half", a, a[:8].copy(), c, 16, 8, 64)
    assert np.isnan(c).all()


@pytest.mark.parametrize(
    "fault", ["BUG_NO_BARRIER_AFTER_WRITING", "BUG_NO_BARRIER_AFTER_READING", "BUG_NO_BARRIER"]
)
def test_a_missing_barrier_gives_a_wrong_result_in_some_order(fault):
    program = emulator.build(["programs/correct.cu"], defines=[f"-D{fault}"])
    a = np.random.RandomState(0).randint(1, 6, (32, 32)).astype(np.float32)
    wrong = []
    for order in emulator.ORDERS:
        c, total = np.zeros((32, 32), np.float32), floats(1)
        with program.configured(order=order):
            program.call("launch_product", a, a, c, 32, 32, 32)
            program.call("launch_sum", a, total, a.size)
        wrong.append(not (c == a @ a).all() or total[0] != a.sum())
    assert any(wrong)


# -- what the sanitizers see ----------------------------------------------------------------------

ADDRESS_FAULTS = {
    "misaligned": ("floats(100), floats()", "misaligned address", "const float4 v"),
    "global_out_of_bounds": ("floats(63), 63", "heap-buffer-overflow", "if (threadIdx.x <= count)"),
    "shared_out_of_bounds": ("floats()", "heap-buffer-overflow", "values[threadIdx.x + 1] = 1;"),
    "wrong_array": ("floats(), 1", "index 64 out of bounds", "first[threadIdx.x + index]"),
}


@pytest.mark.parametrize("name", ADDRESS_FAULTS)
def test_address_sanitizer(address, name):
    arguments, report, line = ADDRESS_FAULTS[name]
    script = f"""
def floats(count=64):
    return np.zeros(count, np.float32)
program.call("launch_{name}", {arguments})
"""
    with pytest.raises(emulator.Fault, match=report) as caught:
        emulator.sanitized(address, script)
    assert line_of(line) in str(caught.value)


RACES = {
    "BUG_NO_BARRIER_AFTER_WRITING": "product",
    "BUG_NO_BARRIER_AFTER_READING": "product",
    "BUG_NO_BARRIER": "sum",
    "BUG_NO_ATOMIC": "sum",
}


@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize("fault", RACES)
def test_thread_sanitizer(fault, order):
    """In the orders in which the result is right, too."""
    kernel = RACES[fault]
    program = emulator.build(
        ["programs/correct.cu"], front_end="source", sanitize="thread", defines=[f"-D{fault}"]
    )
    script = f"""
x = np.ones(289, np.float32)
with program.configured(order="{order}"):
    if "{kernel}" == "sum":
        program.call("launch_sum", x, np.zeros(1, np.float32), x.size)
    else:
        program.call("launch_product", x, x, np.zeros(289, np.float32), 17, 17, 17)
"""
    with pytest.raises(emulator.Fault, match="ThreadSanitizer: data race") as caught:
        emulator.sanitized(program, script)
    assert "correct.cu:" in str(caught.value)
    assert f" in {kernel}(" in str(caught.value)


# -- what the translator does not know ------------------------------------------------------------

PTX = """
.version 9.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 kernel_param_0)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [kernel_param_0];
    mov.u32 %r1, %tid.x;
    INSTRUCTION;
    ret;
}
"""


@pytest.mark.parametrize(
    "instruction",
    [
        "wgmma.fence.sync.aligned",  # an opcode
        "add.sat.s32 %r2, %r1, %r1",  # a modifier
        "mov.u32 %r2, %clock",  # an operand
        "bar.sync 1, 64",  # a form
    ],
)
def test_the_translator_stops_at_what_it_does_not_know(tmp_path, instruction):
    source, target = tmp_path / "in.ptx", tmp_path / "out.cc"
    source.write_text(PTX.replace("INSTRUCTION", instruction))
    command = [
        sys.executable,
        str(emulator.HERE / "ptx" / "translate.py"),
        str(source),
        str(target),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"kernel: unsupported: {instruction}" in done.stderr
    assert not target.exists()

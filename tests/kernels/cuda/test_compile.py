"""nvcc accepts every CUDA source without a warning, and no kernel keeps its registers in memory."""

import pytest

from kernels.cuda import emulator
from tools import cuda_check

REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3oneILi4EEvPf' for 'sm_80'
ptxas info    : Function properties for _Z3oneILi4EEvPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem, 512 bytes cmem[0]
ptxas info    : Compile time = 16.942 ms
ptxas info    : Compiling entry function '_Z3twoPf' for 'sm_80'
ptxas info    : Function properties for _Z3twoPf
    96 bytes stack frame, 84 bytes spill stores, 164 bytes spill loads
ptxas info    : Used 128 registers, used 0 barriers, 96 bytes cumulative stack size
"""


def test_the_report_is_understood():
    one, two = cuda_check.parse(REPORT)
    assert one == cuda_check.Kernel("one<4>(float*)", "sm_80", 40, 2048, 0)
    assert two == cuda_check.Kernel("two(float*)", "sm_80", 128, 0, 248)


@emulator.needs_nvcc
@pytest.mark.jit
def test_all_sources_for_one_gpu(capsys):
    """The others are compiled by `make cuda-check`."""
    assert cuda_check.main(["--arch", "sm_80"]) == 0
    assert " 0 of them spill" in capsys.readouterr().out


@emulator.needs_nvcc
@pytest.mark.jit
def test_a_warning_is_an_error(tmp_path):
    source = tmp_path / "unused.cu"
    source.write_text("__global__ void kernel() { int unused; }\n")
    with pytest.raises(SystemExit, match="unused"):
        cuda_check.compile_source(source, "sm_80")

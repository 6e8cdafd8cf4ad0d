"""CUDA's compilers accept every source without a warning, and no kernel keeps its registers in
memory. All compilers and all GPUs: `make cuda-check`.
"""

import re
from importlib import metadata

import pytest

from kernels.cuda import emulator
from tools.cuda_check import __main__ as cuda_check
from tools.cuda_check import nvcc, nvrtc, sass
from tools.cuda_check.report import Kernel, parse

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
    one, two = parse(REPORT)
    assert one == Kernel("one<4>(float*)", "sm_80", 40, 2048, 0)
    assert two == Kernel("two(float*)", "sm_80", 128, 0, 248)


# as ptxas 11.8 writes it
OLD_REPORT = """\
ptxas info    : Compiling entry function '_Z3twoPf' for 'sm_70'
ptxas info    : Function properties for _Z3twoPf
ptxas         .     96 bytes stack frame, 84 bytes spill stores, 164 bytes spill loads
ptxas info    : Used 128 registers, 31744 bytes smem, 752 bytes cmem[0]
"""


def test_an_older_report_is_understood():
    assert parse(OLD_REPORT) == [Kernel("two(float*)", "sm_70", 128, 31744, 248)]


INSTALLED = {distribution.name for distribution in metadata.distributions()}


def needs(package):
    return pytest.mark.skipif(package not in INSTALLED, reason=f"{package} is not installed")


# every compiler with one GPU
NVCC = [emulator.needs_nvcc, needs("nvidia-cuda-nvdisasm")]
COMPILERS = [pytest.param("nvcc", "sm_90", marks=NVCC)] + [
    pytest.param(release, "sm_70", marks=needs(package))
    for release, (package, _) in nvrtc.RELEASES.items()
]
each_compiler = pytest.mark.parametrize("compiler, arch", COMPILERS)


@emulator.needs_nvcc
@needs("nvidia-cuda-nvdisasm")
@pytest.mark.jit
def test_all_sources_for_one_gpu():
    kernels = cuda_check.compile_all("nvcc", ("sm_90",), cuda_check.sources())
    for kernel in kernels:
        assert not list(cuda_check.faults(kernel, nvcc.MOST_SPILLED)), kernel
    for rule in sass.RULES:
        assert any(re.match(rule.kernels, kernel.name) for kernel in kernels), rule


@pytest.mark.parametrize(
    "kernel, arch, found, faults",
    [
        ("deform_conv2d_forward<Float16, int>", "sm_80", "LDG.E.64 FFMA", ["lacks HMMA"]),
        ("deform_conv2d_forward<Float16, int>", "sm_75", "LDG.E.64.SYS FFMA", []),
        ("deform_conv2d_forward<float, int>", "sm_80", "LDG.E.128 HMMA.16816", ["has [HD]MMA"]),
        ("deform_conv2d_backward_weight<double, int>", "sm_75", "LDG.E.64", ["lacks LDG"]),
        (
            "deform_conv2d_backward_data<float, int>",
            "sm_90",
            "LDG.E.128 REDG.E.ADD.F32",
            ["lacks REDG"],
        ),
        (
            "sce::pass_kernel<sce::Forward, float, float, 4, int>",
            "sm_90",
            "LDG.E",
            ["lacks LDG", "lacks STG"],
        ),
        ("sce::pass_kernel<sce::Forward, float, float, 1, int>", "sm_90", "LDG.E", []),
        ("pack_weight<float>", "sm_90", "HMMA.16816", []),
    ],
)
def test_instructions_that_are_not_meant(kernel, arch, found, faults):
    said = list(sass.broken(Kernel(kernel, arch, 40, 0, 0, frozenset(found.split()))))
    assert len(said) == len(faults) and all(map(str.startswith, said, faults)), said


@emulator.needs_nvcc
@needs("nvidia-cuda-nvdisasm")
@pytest.mark.jit
def test_instructions_of_a_kernel(tmp_path):
    source, cubin = tmp_path / "copy.cu", tmp_path / "copy.cubin"
    source.write_text(
        "__global__ void copy(float4* to, const float4* from) { *to = *from; }\n"
        "__global__ void nothing() {}\n"
    )
    nvcc.compile_source(source, "sm_90", cubin)
    kernels = sass.instructions(cubin)
    assert {"LDG.E.128", "STG.E.128"} < kernels["copy(float4*, float4 const*)"]
    assert not any(found.startswith(("LDG", "STG")) for found in kernels["nothing()"])


@pytest.mark.jit
@each_compiler
def test_kernels_that_the_host_launches(tmp_path, compiler, arch):
    """Also where the compiler takes the host's code for the GPU's."""
    source = tmp_path / "twice.cu"
    source.write_text(
        """
        #include "kernels/common/launch.cuh"
        template <typename T> __global__ void twice(T* x) { *x *= 2; }
        cudaError_t run(float* x) {
          return paddle_ops::cuda::launch(twice<float>, dim3(1), dim3(1), 0, nullptr, x);
        }
        """
    )
    (kernel,) = cuda_check.compile_all(compiler, (arch,), [source])
    assert kernel.name == "twice<float>(float*)" and kernel.arch == arch


@pytest.mark.jit
@each_compiler
@pytest.mark.parametrize("fault", ["int unused;", "int x = y;"])
def test_a_warning_is_an_error(tmp_path, compiler, arch, fault):
    source = tmp_path / "fault.cu"
    source.write_text("__global__ void kernel() {" + fault + "}\n")
    with pytest.raises(SystemExit, match="fault.cu"):
        cuda_check.compile_all(compiler, (arch,), [source])


def test_a_kernel_that_spills():
    spilling = Kernel("one()", "sm_90", 255, 0, 248)
    assert list(cuda_check.faults(spilling, 16)) == ["spills 248 bytes"]


def test_a_compiler_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(nvrtc.RELEASES, "11.8", ("nvidia-cuda-nvrtc-cu99", "libnvrtc.so.99"))
    with pytest.raises(SystemExit, match=r"nvidia-cuda-nvrtc-cu99 is not installed: pip install"):
        nvrtc.Nvrtc("11.8")

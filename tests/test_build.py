"""Whether and how the GPU's kernels are built."""

import paddle
import pytest
from paddle.base import core

from paddle_ops import _build, _lib

GENCODE = "-gencode=arch=compute_{0},code={1}_{0}".format


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    """A folder that looks like CUDA, and nothing else that could be found."""
    for file in ("bin/nvcc", "include/cuda.h", "include/cccl/thrust.h"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch(mode=0o755)
    for name in ("CUDA_HOME", "CUDA_PATH", "PADDLE_OPS_CUDA", "PADDLE_CUDA_ARCH_LIST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_toolkit_that_is_named_is_taken(toolkit, monkeypatch):
    monkeypatch.setenv("CUDA_PATH", str(toolkit))
    assert _build.cuda_home() == str(toolkit)
    monkeypatch.setenv("CUDA_HOME", str(toolkit / "bin"))
    assert _build.cuda_home() is None


def test_the_toolkit_of_the_compiler_on_the_path(toolkit, monkeypatch):
    """Through links, as distributions make them."""
    (toolkit / "links").mkdir()
    (toolkit / "links" / "nvcc").symlink_to(toolkit / "bin" / "nvcc")
    monkeypatch.setenv("PATH", str(toolkit / "links"))
    assert _build.cuda_home() == str(toolkit)


@pytest.mark.parametrize("gpu_build", [False, True])
def test_when_the_kernels_are_built(toolkit, monkeypatch, gpu_build):
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: gpu_build)
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    assert _build.uses_cuda() == gpu_build
    for asked in (False, True):
        monkeypatch.setenv("PADDLE_OPS_CUDA", str(int(asked)))
        assert _build.uses_cuda() == asked
        suffixes = {source.rsplit(".")[-1] for source in _build.sources()}
        assert suffixes == ({"cc", "cu"} if asked else {"cc"})
        assert ("-DPADDLE_OPS_CUDA" in _build.cxx_flags()) == asked
        assert (str(toolkit / "include" / "cccl") in _build.include_paths()) == asked
        assert _build.record()["gpu_kernels"] == str(asked)


def test_without_a_compiler(toolkit, monkeypatch):
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: True)
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    assert not _build.uses_cuda()
    monkeypatch.setenv("PADDLE_OPS_CUDA", "1")
    with pytest.raises(RuntimeError, match="set CUDA_HOME"):
        _build.uses_cuda()


def test_a_wrong_switch(toolkit, monkeypatch):
    monkeypatch.setenv("PADDLE_OPS_CUDA", "yes")
    with pytest.raises(RuntimeError, match="expected 0 or 1, got 'yes'"):
        _build.uses_cuda()


@pytest.mark.parametrize("gpus", ["8.6;9.0+PTX", "8.6, 9.0+PTX", "8.6 9.0+PTX"])
def test_the_gpus_that_are_asked_for(toolkit, monkeypatch, gpus):
    monkeypatch.setenv("PADDLE_CUDA_ARCH_LIST", gpus)
    flags = [flag for flag in _build.cuda_flags() if "gencode" in flag]
    assert flags == [GENCODE("86", "sm"), GENCODE("90", "sm"), GENCODE("90", "compute")]


def test_a_gpu_that_does_not_exist(toolkit, monkeypatch):
    monkeypatch.setenv("PADDLE_CUDA_ARCH_LIST", "Ampere")
    with pytest.raises(RuntimeError, match="expected e.g. 8.6 or 9.0.PTX, got 'Ampere'"):
        _build.cuda_flags()


@pytest.mark.skipif(
    not paddle.is_compiled_with_cuda() or not _build.uses_cuda(),
    reason="a CPU build of Paddle, or nvcc is not installed",
)
def test_the_kernels_are_in_the_binary():
    """Built, linked, loaded (with or without a GPU) and registered for it."""
    binary = _lib.library()
    assert _lib.record(binary)["gpu_kernels"] == "True"
    content = binary.read_bytes()
    kernels = ("deform_conv2d_forward", "deform_conv2d_backward_weight", "pass_kernel")
    assert all(name.encode() in content for name in (".nv_fatbin", *kernels))
    registered = core._get_all_register_op_kernels("fluid")
    for name in ("deform_conv2d", "sigmoid_cross_entropy_with_logits"):
        for suffix in ("", "_grad"):
            assert any("gpu" in place for place in registered[f"paddle_ops_{name}{suffix}"]), name

"""python -m paddle_ops.doctor: what it tells, and what it finds wrong."""

import numpy as np
import paddle
import pytest
from child import run_module

from paddle_ops import _build, _lib, doctor, functional


def test_a_working_installation(capsys):
    assert doctor.main() == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == "no problems found"
    told = dict(doctor.facts())
    assert told["operators from"] == str(_lib.library())
    assert told["built: sources"] == _build.sources_hash()
    assert all(f"{what:22} {value}" in said.splitlines() for what, value in told.items())


def test_it_runs_as_a_command():
    done = run_module("paddle_ops.doctor", PADDLE_OPS_TARGET="baseline")
    assert done.returncode == 0, done.stderr
    assert "baseline" in done.stdout


def test_without_a_binary():
    done = run_module("paddle_ops.doctor", PADDLE_OPS_JIT="1")
    assert done.returncode == 1
    assert "WRONG: paddle_ops: no compiled operators" in done.stdout
    assert "PADDLE_OPS_JIT is set" in done.stdout


@pytest.mark.parametrize(
    "name, value",
    [
        ("PADDLE_OPS_NUM_THREADS", "0"),
        ("PADDLE_OPS_GPU_SCRATCH_MB", "1 GB"),
        ("PADDLE_OPS_TARGET", "avx1024"),
    ],
)
def test_settings_that_do_not_count(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    (problem,) = doctor.problems()
    assert problem.startswith(f"{name} is {value!r}")


def test_sources_changed_since_the_build(monkeypatch):
    monkeypatch.setattr(_build, "sources_hash", lambda: "changed")
    (problem,) = doctor.problems()
    assert "was built from other sources" in problem


def test_a_gpu_without_kernels_for_it(monkeypatch):
    monkeypatch.setattr(doctor, "_gpus", lambda: 1)
    monkeypatch.setattr(doctor, "_faults_of_the_operators", lambda: iter(()))
    built = {**_lib.record(_lib.library()), "gpu_kernels": "False"}
    monkeypatch.setattr(_lib, "record", lambda binary: built)
    (problem,) = doctor.problems()
    assert "CPU kernels only" in problem


@pytest.mark.parametrize("name", ["deform_conv2d", "sigmoid_cross_entropy_with_logits"])
def test_wrong_numbers_are_found(monkeypatch, name):
    right = getattr(functional, name)
    monkeypatch.setattr(functional, name, lambda *args: right(*args) * 1.001)
    (problem,) = doctor.problems()
    assert name in problem


def test_an_operator_that_raises(monkeypatch):
    def broken(*args):
        raise RuntimeError("out of order")

    monkeypatch.setattr(functional, "deform_conv2d", broken)
    (problem,) = doctor.problems()
    assert problem == "the operators fail on cpu: out of order"


def test_known_results_are_those_of_the_definition():
    """What the doctor compares with is not this package's output copied."""
    image = np.pad(np.arange(1.0, 10.0).reshape(3, 3), (0, 1))
    blend = (image[:-1, :-1] + image[:-1, 1:] + image[1:, :-1] + image[1:, 1:]) / 4
    x = paddle.arange(1.0, 10.0).reshape([1, 1, 3, 3])
    got = functional.deform_conv2d(x, paddle.full([1, 2, 3, 3], 0.5), paddle.ones([1, 1, 1, 1]))
    np.testing.assert_allclose(got.numpy()[0, 0], blend)

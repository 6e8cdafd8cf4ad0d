"""Times the kernels on the GPU, beside torchvision and what the GPU can do at most."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable

from tools.gpu_check.check import Call, as_stored
from tools.gpu_check.device import Torch
from tools.perf.cases import FORWARD, FORWARD_BACKWARD, Case
from tools.perf.roofline import GPUS, fused_bytes


def time_case(case: Case, dtype: str, gpu: ModuleType, device: Torch) -> dict[str, Any]:
    """Return microseconds with the data in the cache and without, by direction."""
    tensors = {n: as_stored(v, dtype) for n, v in case.tensors("normal", dtype).items()}
    call = Call(case, tensors, {}, gpu, device)

    def both() -> None:
        call.forward()
        call.backward()

    row: dict[str, Any] = {"case": case.name, "dtype": dtype}
    others = torchvisions(case, tensors, device)
    for direction, run in ((FORWARD, call.forward), (FORWARD_BACKWARD, both)):
        times = {
            "warm_us": device.microseconds(run, cold=False),
            "cold_us": device.microseconds(run, cold=True),
        }
        seconds = times["warm_us"] * 1e-6
        times["gflop_per_s"] = case.flops(direction) / seconds / 1e9
        times["gb_per_s"] = case.bytes(direction, dtype) / seconds / 1e9
        if direction in others:
            times["torchvision_us"] = device.microseconds(others[direction], cold=False)
            times["torchvision_ratio"] = times["torchvision_us"] / times["warm_us"]
        if case.op == "deform_conv2d" and dtype == "float32":
            times["bound_us"] = bound(case, direction, device.name)
        row[direction] = times
    return row


def bound(case: Case, direction: str, name: str) -> float | None:
    """Return microseconds that this GPU needs at least by its vendor's figures, if known."""
    for gpu in GPUS:
        if gpu.name.split()[0] in name:
            moved = fused_bytes(case, direction) / gpu.bandwidth
            return 1e6 * max(case.flops(direction) / gpu.flops, moved)
    return None


def torchvisions(case: Case, tensors: dict, device: Torch) -> dict[str, Callable[[], object]]:
    """Return torchvision's operator on the same tensors, or nothing where it has none."""
    if case.op != "deform_conv2d" or str(tensors["x"].dtype) == "uint16":
        return {}
    try:
        from torchvision.ops import deform_conv2d
    except ImportError:
        return {}
    loaded = {name: device.upload(value) for name, value in tensors.items()}
    grad_out = loaded.pop("grad_out")
    for value in loaded.values():
        value.requires_grad_()
    arguments = case.arguments()
    arguments.pop("deformable_groups")  # follow from the shapes, both of them
    arguments.pop("groups")
    names = {"x": "input"}
    inputs = {names.get(name, name): value for name, value in loaded.items()}

    def forward() -> object:
        with device.torch.no_grad():
            return deform_conv2d(**inputs, **arguments)

    def both() -> object:
        out = deform_conv2d(**inputs, **arguments)
        return device.torch.autograd.grad(out, list(loaded.values()), grad_out)

    return {FORWARD: forward, FORWARD_BACKWARD: both}

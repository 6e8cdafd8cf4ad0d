"""Arrays on the GPU, through PyTorch; and their stand-in for kernels that take NumPy arrays."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np


class Host:
    """Arrays that stay where they are: for kernels that run on the CPU."""

    name = "host"

    def upload(self, array: np.ndarray) -> Any:
        """Return a copy of an array for the kernels; bfloat16 travels as the bits in uint16."""
        return array.copy()

    def argument(self, tensor: Any) -> Any:
        """Return what the pybind11 module takes for a tensor."""
        return tensor

    def download(self, tensor: Any) -> np.ndarray:
        """Return a tensor's numbers."""
        return tensor


class Torch(Host):
    """The current GPU of PyTorch."""

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise SystemExit("gpu_check: PyTorch finds no GPU")
        self.torch = torch
        self.name = torch.cuda.get_device_name()
        # larger than any cache of the second level
        self._large = torch.empty(512 * 2**20, dtype=torch.uint8, device="cuda")

    def upload(self, array: np.ndarray) -> Any:
        """Copy to the GPU."""
        tensor = self.torch.from_numpy(array).cuda()
        return tensor.view(self.torch.bfloat16) if array.dtype == np.uint16 else tensor

    def argument(self, tensor: Any) -> Any:
        """Return (address, dtype, shape)."""
        name = str(tensor.dtype).removeprefix("torch.")
        return tensor.data_ptr(), name, list(tensor.shape)

    def download(self, tensor: Any) -> np.ndarray:
        """Copy back, after all that was launched."""
        if tensor.dtype == self.torch.bfloat16:
            tensor = tensor.view(self.torch.uint16)
        return tensor.cpu().numpy()

    def microseconds(self, call: Callable[[], object], cold: bool, repeat: int = 20) -> float:
        """Return the median time of a call on the GPU, with or without its data in the cache."""
        times = []
        for _ in range(repeat + 2):
            if cold:
                self._large.zero_()
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            times.append(1e3 * start.elapsed_time(end))
        return float(np.median(times[2:]))

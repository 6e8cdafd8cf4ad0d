"""Other libraries, each used when it can be imported, and the dense convolution as a yardstick."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from typing import Any

import numpy as np

from tools.perf.cases import FORWARD, Case, CrossEntropyCase, DeformConvCase, Tensors
from tools.perf.provider import Provider, Results


def _import(module: str) -> Any:
    """Return a module, or None where it is missing or cannot work."""
    try:
        return importlib.import_module(module)
    except (ImportError, OSError, RuntimeError):
        return None


class _InTorch(Provider):
    """What is called on PyTorch's tensors."""

    @classmethod
    def available(cls) -> bool:
        return _import("torch") is not None

    @classmethod
    def version(cls) -> str:
        return f"torch {_import('torch').__version__}"

    def __init__(self, case: Case, tensors: Tensors, dtype: str, threads: int):
        self._torch = _import("torch")
        self._torch.set_num_threads(threads)
        kind = getattr(self._torch, dtype)
        loaded = {name: self._torch.from_numpy(value).to(kind) for name, value in tensors.items()}
        self._grad_out = loaded.pop("grad_out")
        self._constants = self._used(loaded)
        self._variables = {
            name: tensor.detach().requires_grad_(name != "label")
            for name, tensor in self._constants.items()
        }
        self._case = case

    def _used(self, inputs: Results) -> Results:
        """Return those inputs that the function reads."""
        return inputs

    @abstractmethod
    def _call(self, x: Any, **inputs: Any) -> Any:
        """Compute the output."""

    def forward(self) -> Results:
        # Not inference_mode: some convolutions take a path in it that is several times slower.
        with self._torch.no_grad():
            return {"out": self._call(**self._constants)}

    def forward_backward(self) -> Results:
        out = self._call(**self._variables)
        wanted = {name: t for name, t in self._variables.items() if t.requires_grad}
        gradients = self._torch.autograd.grad(out, list(wanted.values()), self._grad_out)
        return {"out": out, **dict(zip(wanted, gradients))}

    def to_numpy(self, value: Any) -> np.ndarray:
        wide = value if value.dtype == self._torch.float64 else value.float()
        return wide.detach().numpy()


class Torch(_InTorch):
    """PyTorch's loss and torchvision's deformable convolution."""

    name = "torch"
    paddle_boundary = False

    @classmethod
    def version(cls) -> str:
        torchvision = _import("torchvision")
        extra = f", torchvision {torchvision.__version__}" if torchvision else ""
        return super().version() + extra

    @classmethod
    def supports(cls, case: Case, direction: str, dtype: str) -> bool:
        if isinstance(case, CrossEntropyCase):
            return True
        return dtype in ("float32", "float64") and _import("torchvision.ops") is not None

    def _call(self, x: Any, **inputs: Any) -> Any:
        case = self._case
        if isinstance(case, CrossEntropyCase):
            loss = self._torch.nn.functional.binary_cross_entropy_with_logits
            return loss(x, inputs["label"], reduction="none")
        # It derives both kinds of groups from the shapes.
        deform_conv2d = _import("torchvision.ops").deform_conv2d
        return deform_conv2d(x, **inputs, stride=case.stride, padding=case.padding)


class Dense(_InTorch):
    """A yardstick: PyTorch's ordinary convolution of the same shape."""

    name = "dense"
    computes = False

    @classmethod
    def supports(cls, case: Case, direction: str, dtype: str) -> bool:
        return not isinstance(case, CrossEntropyCase)

    def _used(self, inputs: Results) -> Results:
        return {name: inputs[name] for name in ("x", "weight", "bias") if name in inputs}

    def _call(self, x: Any, **inputs: Any) -> Any:
        case = self._case
        convolution = self._torch.nn.functional.conv2d
        return convolution(
            x, **inputs, stride=case.stride, padding=case.padding, groups=case.groups
        )


class OnnxRuntime(Provider):
    """ONNX Runtime's DeformConv; inference only."""

    name = "onnxruntime"

    @classmethod
    def available(cls) -> bool:
        return _import("onnxruntime") is not None and _import("onnx") is not None

    @classmethod
    def version(cls) -> str:
        return f"onnxruntime {_import('onnxruntime').__version__}"

    @classmethod
    def supports(cls, case: Case, direction: str, dtype: str) -> bool:
        conv = not isinstance(case, CrossEntropyCase)
        return conv and direction == FORWARD and dtype == "float32" and not case.huge

    def __init__(self, case: Case, tensors: Tensors, dtype: str, threads: int):
        runtime = _import("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        self._feeds = {name: value for name, value in tensors.items() if name != "grad_out"}
        self._session = runtime.InferenceSession(
            _onnx_model(case), options, providers=["CPUExecutionProvider"]
        )

    def forward(self) -> Results:
        return {"out": self._session.run(["out"], self._feeds)[0]}

    def forward_backward(self) -> Results:
        raise NotImplementedError("onnxruntime: no gradients")


def _onnx_model(case: DeformConvCase) -> bytes:
    """Return a model that is one DeformConv of the case's sizes."""
    onnx = _import("onnx")
    helper = onnx.helper
    inputs = case.inputs()
    node = helper.make_node(
        "DeformConv",
        # absent inputs keep their places
        [name if name in inputs else "" for name in ("x", "weight", "offset", "bias", "mask")],
        ["out"],
        kernel_shape=[case.kernel] * 2,
        strides=[case.stride] * 2,
        pads=[case.padding] * 4,
        group=case.groups,
        offset_group=case.deformable_groups,
    )

    def value(name: str, shape: tuple[int, ...]) -> Any:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        [node], case.name, [value(*item) for item in inputs.items()], [value("out", case.out)]
    )
    opset = helper.make_opsetid("", 19)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    return model.SerializeToString()


class OpenVino(Provider):
    """OpenVINO's DeformableConvolution-8; inference only."""

    name = "openvino"

    @classmethod
    def available(cls) -> bool:
        return _import("openvino") is not None

    @classmethod
    def version(cls) -> str:
        return f"openvino {_import('openvino').__version__.split('-')[0]}"

    @classmethod
    def supports(cls, case: Case, direction: str, dtype: str) -> bool:
        return OnnxRuntime.supports(case, direction, dtype)

    def __init__(self, case: Case, tensors: Tensors, dtype: str, threads: int):
        openvino = _import("openvino")
        self._feeds = {name: value for name, value in tensors.items() if name != "grad_out"}
        self._model = openvino.compile_model(
            _openvino_model(openvino, case),
            "CPU",
            {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"},
        )

    def forward(self) -> Results:
        return {"out": self._model(self._feeds)[0]}

    def forward_backward(self) -> Results:
        raise NotImplementedError("openvino: no gradients")


def _openvino_model(openvino: Any, case: DeformConvCase) -> Any:
    """Return a model that is one DeformableConvolution of the case's sizes."""
    ops = _import("openvino.opset8")
    values = {
        name: ops.parameter(list(shape), dtype=np.float32, name=name)
        for name, shape in case.inputs().items()
    }
    out = ops.deformable_convolution(
        values["x"],
        values["offset"],
        values["weight"],
        strides=[case.stride] * 2,
        pads_begin=[case.padding] * 2,
        pads_end=[case.padding] * 2,
        dilations=[1, 1],
        mask=values.get("mask"),
        group=case.groups,
        deformable_group=case.deformable_groups,
        bilinear_interpolation_pad=True,
    )
    if "bias" in values:
        out = ops.add(out, ops.reshape(values["bias"], np.array([1, -1, 1, 1]), False))
    return openvino.Model([out], list(values.values()), case.name)

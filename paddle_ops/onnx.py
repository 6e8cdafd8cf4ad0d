"""Export to ONNX: Paddle2ONNX for everything else, the standard operator DeformConv for ours."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import paddle

from . import _check, _lib

_OP = "onnx.export"
_OURS = "custom_op.paddle_ops_deform_conv2d"
_LOSS = "custom_op.paddle_ops_sigmoid_cross_entropy_with_logits"
# DeformConv came with this one.
_FIRST_OPSET = 19
# From here on a padding is not one but says which of our operators the node stands for.
_MARKED = 2**29


def export(
    model: paddle.nn.Layer | str | Path,
    path: str | Path,
    input_spec: Sequence[Any] | None = None,
    opset_version: int = _FIRST_OPSET,
) -> None:
    """Write a network that uses `deform_conv2d` as an ONNX model of standard operators.

    Each `deform_conv2d` becomes one DeformConv, with its four paddings, strides, dilations, groups,
    deformable groups and mask; its bias is added behind it. The other operators are converted by
    Paddle2ONNX, so what it covers is covered here. `boundary_grad` means nothing in a forward.
    `sigmoid_cross_entropy_with_logits` is a loss and is not exported: export the network
    without it.

    Needs Paddle 3 and the packages of ``pip install 'paddle-ops[onnx]'``.

    Args:
        model: a layer (call its ``eval()`` before), or the path that was given to
            `paddle.jit.save` when the model was saved.
        path: the file to write, usually ``*.onnx``.
        input_spec: for a layer: what `paddle.jit.save` takes, a list of `paddle.static.InputSpec`
            or tensors; sizes of None stay free in the ONNX model. Default None: what
            ``paddle.jit.to_static`` knows already.
        opset_version: version of ONNX's operators; at least 19, the first with DeformConv.
            Default 19.

    Raises:
        ImportError: Paddle2ONNX is missing, or this is Paddle 2.
        TypeError: `model` is neither a layer nor a path, or computes in a half type.
        ValueError: the version is below 19; the model has the loss in it, or a `deform_conv2d`
            inside control flow (a condition or a loop that depends on tensors).
        RuntimeError: Paddle2ONNX cannot convert the rest of the model; the message ends with its
            output, which names the operators.

    Example:
        >>> import tempfile
        >>> import paddle
        >>> from paddle_ops import onnx
        >>> from paddle_ops.nn import DeformConv2D
        >>> layer = DeformConv2D(2, 4, 3, padding=1)
        >>> _ = layer.eval()
        >>> spec = [
        ...     paddle.static.InputSpec([None, channels, None, None], "float32", name)
        ...     for name, channels in (("x", 2), ("offset", 18), ("mask", 9))
        ... ]
        >>> onnx.export(layer, tempfile.mkdtemp() + "/layer.onnx", spec)

    Source: https://onnx.ai/onnx/operators/onnx__DeformConv.html
    """
    if _check.integer(_OP, "opset_version", opset_version) < _FIRST_OPSET:
        _check.fail(_OP, "opset_version", f"at least {_FIRST_OPSET}", opset_version)
    if not isinstance(model, (paddle.nn.Layer, str, Path)):
        _check.fail(_OP, "model", "a Layer or a path", type(model).__name__, TypeError)
    _require_converter()
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        saved = str(model)
        if isinstance(model, paddle.nn.Layer):
            saved = str(Path(folder) / "model")
            paddle.jit.save(model, saved, input_spec=input_spec)
        rewritten = str(Path(folder) / "rewritten.json")
        stood_for = _rewrite(saved, rewritten)
        exported = _convert(rewritten, saved + ".pdiparams", opset_version)
    for node in exported.graph.node:
        if node.op_type == "DeformConv":
            _complete(node, stood_for)
    _drop_unused(exported.graph)
    onnx.checker.check_model(exported, full_check=True)
    onnx.save(exported, str(path))


def _require_converter() -> None:
    """Raise an ImportError that says what to do when the conversion cannot run here."""
    _lib.require()
    if paddle.__version__.startswith("2."):
        raise ImportError(f"{_OP}: needs Paddle 3, and this is Paddle {paddle.__version__}")
    try:
        import paddle2onnx  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{_OP}: {error}; try: pip install 'paddle-ops[onnx]'") from error


def _rewrite(saved: str, rewritten: str) -> list[dict[str, Any]]:
    """Put Paddle's operator, which Paddle2ONNX knows, in the place of ours in a saved program.

    Returns:
        The attributes of the operators that were replaced, by marker.
    """
    replaced: list[dict[str, Any]] = []
    with paddle.pir_utils.IrGuard():
        executor = paddle.static.Executor(paddle.CPUPlace())
        # In a scope of its own: the caller's static programs may have parameters of these names.
        with paddle.static.scope_guard(paddle.static.Scope()):
            program, _, _ = paddle.static.load_inference_model(saved, executor)
        block = program.global_block()
        with paddle.static.program_guard(program):
            for op in list(block.ops):
                _refuse(op)
                if op.name() == _OURS:
                    paddle.pir.set_insertion_point(op)
                    op.result(0).replace_all_uses_with(_stand_in(op, len(replaced)))
                    replaced.append(op.attrs())
                    block.remove_op(op)
        paddle.save(program, rewritten)
    return replaced


def _refuse(op: Any) -> None:
    """Raise a ValueError for what has no place in an exported model."""
    if op.name() == _LOSS:
        _check.fail(_OP, "model", "a network without its loss", _LOSS.split(".")[1])
    for block in op.blocks():
        for inner in block.ops:
            if inner.name() == _OURS:
                _check.fail(_OP, "model", "no deform_conv2d in control flow", op.name())
            _refuse(inner)


def _stand_in(op: Any, marker: int) -> Any:
    """Return the output of Paddle's operator that takes the inputs of ours but the bias."""
    x, offset, weight, bias, mask = op.operands_source()
    _check.dtype(_OP, "model", x, ("float32", "float64"))
    # Built on placeholders and then given the real inputs and output type, since it refuses some
    # sizes that ours takes. Of its attributes only the padding is read again, as the marker.
    one, two = (paddle.ones([1, channels, 1, 1], "float32") for channels in (1, 2))
    padding = [_MARKED + marker, 0]
    out = paddle._C_ops.deformable_conv(one, two, one, one, [1, 1], padding, [1, 1], 1, 1, 1)
    stand_in = out.get_defining_op()
    for operand, source in zip(stand_in.operands(), (x, offset, weight, mask)):
        operand.set_source(source)
    out.set_type(op.result(0).type())
    return out + bias.reshape([1, -1, 1, 1]) if op.attrs()["has_bias"] else out


def _convert(program: str, parameters: str, opset_version: int) -> Any:
    """Return what Paddle2ONNX makes of a saved program, as an ONNX model."""
    import onnx

    # In a process of its own: it ends the one it runs in when it does not know an operator.
    code = (
        "import sys, paddle2onnx\n"
        "program, parameters, version, result = sys.argv[1:]\n"
        "options = dict(opset_version=int(version), verbose=True)\n"
        "open(result, 'wb').write(paddle2onnx.export(program, parameters, None, **options))\n"
    )
    result = program + ".onnx"
    done = subprocess.run(
        [sys.executable, "-c", code, program, parameters, str(opset_version), result],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{_OP}: Paddle2ONNX cannot convert the model:\n{done.stdout}")
    return onnx.load(result)


def _complete(node: Any, stood_for: list[dict[str, Any]]) -> None:
    """Give a DeformConv the attributes and inputs of the operator that it stands for."""
    from onnx.helper import get_attribute_value, make_attribute

    padding = next(get_attribute_value(a)[0] for a in node.attribute if a.name == "pads")
    if padding < _MARKED:  # Paddle's own
        return
    attrs = stood_for[padding - _MARKED]
    top, bottom, left, right = attrs["paddings"]
    del node.attribute[:]
    for name, value in (
        ("strides", attrs["strides"]),
        ("pads", [top, left, bottom, right]),
        ("dilations", attrs["dilations"]),
        ("group", attrs["groups"]),
        ("offset_group", attrs["deformable_groups"]),
    ):
        node.attribute.append(make_attribute(name, value))
    x, weight, offset, _, mask = node.input
    del node.input[:]
    node.input.extend([x, weight, offset, *(["", mask] if attrs["has_mask"] else [])])


def _drop_unused(graph: Any) -> None:
    """Remove the nodes that no output depends on."""
    needed = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if not needed.isdisjoint(node.output):
            kept.append(node)
            needed.update(_names_read(node))
    del graph.node[:]
    graph.node.extend(reversed(kept))


def _names_read(node: Any) -> set[str]:
    """Return the names of the values that a node reads, those in its subgraphs included."""
    graphs = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    inner = [name for graph in graphs for part in graph.node for name in _names_read(part)]
    outputs = [output.name for graph in graphs for output in graph.output]
    return {*node.input, *inner, *outputs}

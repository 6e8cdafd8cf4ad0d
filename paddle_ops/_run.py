"""Calls a custom operator in whichever graph mode Paddle is in, on Paddle 2.6 and 3.x."""

from __future__ import annotations

from typing import Any

import paddle
from paddle.base.layer_helper import LayerHelper

from . import _lib

try:
    from paddle._C_ops import _run_custom_op
    from paddle.framework import in_dynamic_or_pir_mode as _returns_outputs
    from paddle.jit.marker import unified
except ImportError:  # Paddle 2.6
    from paddle.base import core
    from paddle.framework import in_dynamic_mode as _returns_outputs

    _run_custom_op = core.eager._run_custom_op

    def unified(function):
        """Stand in for the marker that Paddle 2.6 lacks (its SOT runs custom operators eagerly)."""
        return function


# Every function and layer comes by here: without operators, importing one says what to do.
_lib.require()


# The marker lets SOT put the call into its graph; otherwise each call would split the graph.
@unified
def run(op: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """Run one custom operator and return its only output.

    Args:
        op: registered name of the operator.
        inputs: tensors by the operator's input names, in the operator's order.
        attrs: attributes by name, in the operator's order, without the last one, `needs`: it
            tells the kernel which gradients are wanted and is added here.

    Returns:
        The output tensor (or the variable that stands for it in a static graph).
    """
    if paddle.in_dynamic_mode() and not paddle.is_grad_enabled():
        # Paddle records custom operators even under no_grad, and would keep their inputs alive.
        inputs = {name: tensor.detach() for name, tensor in inputs.items()}
    needs = [0 if tensor.stop_gradient else 1 for tensor in inputs.values()]
    attrs = {**attrs, "needs": needs}
    if _returns_outputs():
        return _run_custom_op(op, *inputs.values(), *attrs.values())[0]
    return _append_op(op, inputs, attrs)


def _append_op(op: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """Append the operator to a static program of the old kind (Paddle 2.6)."""
    needs = attrs["needs"]
    if any(needs) and not all(needs):
        # That program cannot build the gradient operator when an input stops the gradient.
        inputs = {name: _with_gradient(tensor) for name, tensor in inputs.items()}
    helper = LayerHelper(op)
    first = next(iter(inputs.values()))
    out = helper.create_variable_for_type_inference(dtype=first.dtype, stop_gradient=not any(needs))
    helper.append_op(type=op, inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out


def _with_gradient(tensor: Any) -> Any:
    """Return the tensor, or a copy of one that stops the gradient that does not."""
    if not tensor.stop_gradient:
        return tensor
    copy = paddle.assign(tensor)
    copy.stop_gradient = False
    return copy

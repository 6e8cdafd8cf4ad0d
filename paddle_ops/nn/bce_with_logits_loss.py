"""Binary cross entropy of logits as a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle

from .. import _check
from .._types import Reduction
from ..functional.binary_cross_entropy_with_logits import (
    REDUCTIONS,
    binary_cross_entropy_with_logits,
)


class BCEWithLogitsLoss(paddle.nn.Layer):
    """Binary cross entropy between logits and labels.

    The arguments of :func:`paddle_ops.binary_cross_entropy_with_logits` that stay the same from
    call to call. As in Paddle's own layer the weights are not part of the state dict; they follow
    the layer when it is moved to another device.

    Args:
        weight: factor of each element's loss, of a shape that broadcasts to that of the logits.
            Default None.
        reduction: "mean" (default), "sum" or "none".
        pos_weight: weight of positive labels, of a shape that broadcasts to that of the logits.
            Default None.
        name: accepted for compatibility; has no effect.

    Raises:
        ValueError: ``reduction`` is unknown. Calling the layer raises what the function raises.

    Shapes:
        logit: any shape. label: the same. Result: a scalar, or the same shape for "none".

    Example:
        >>> import paddle
        >>> from paddle_ops.nn import BCEWithLogitsLoss
        >>> loss = BCEWithLogitsLoss(reduction="sum")
        >>> print(round(float(loss(paddle.zeros([2, 3]), paddle.ones([2, 3]))), 4))
        4.1589

    Source: argument order of paddle.nn.BCEWithLogitsLoss; values of torch.nn.BCEWithLogitsLoss.
    """

    def __init__(
        self,
        weight: paddle.Tensor | None = None,
        reduction: Reduction = "mean",
        pos_weight: paddle.Tensor | None = None,
        name: str | None = None,
    ) -> None:
        """Remember the arguments; see the class."""
        super().__init__()
        _check.choice("BCEWithLogitsLoss", "reduction", reduction, REDUCTIONS)
        self.reduction = reduction
        self._keep("weight", weight)
        self._keep("pos_weight", pos_weight)

    def _keep(self, argument: str, value: paddle.Tensor | None) -> None:
        """Store a weight so that it moves with the layer and stays out of the state dict."""
        if value is not None:
            _check.tensor("BCEWithLogitsLoss", argument, value)
        plain = isinstance(value, paddle.Tensor) and not isinstance(
            value, paddle.base.framework.EagerParamBase
        )
        if plain:
            self.register_buffer(argument, value, persistable=False)
        else:  # None, a parameter (which Layer registers itself), a variable of a static graph
            setattr(self, argument, value)

    def forward(self, logit: paddle.Tensor, label: paddle.Tensor) -> paddle.Tensor:
        """Return the loss of ``logit`` against ``label``."""
        return binary_cross_entropy_with_logits(
            logit,
            label,
            weight=self.weight,
            reduction=self.reduction,
            pos_weight=self.pos_weight,
        )

    if TYPE_CHECKING:

        def __call__(self, logit: paddle.Tensor, label: paddle.Tensor) -> paddle.Tensor:
            """Return what forward does. Paddle's own takes and returns anything."""

    def extra_repr(self) -> str:
        """Return the part of the layer's description that is its own."""
        return f"reduction={self.reduction}"

"""BCE with logits as PyTorch and paddle.nn.functional define it, in float64, on whole arrays.

loss = weight * ((1-y)*x + l*softplus(-x)),  l = 1 + (pos_weight - 1)*y,  then the reduction
"""

import numpy as np

from reference.sigmoid_cross_entropy_with_logits import Reference, _softplus, _sum_to


def _parts(logit, label, pos_weight):
    logit, label = np.asarray(logit, np.float64), np.asarray(label, np.float64)
    factor = None if pos_weight is None else 1 + (np.asarray(pos_weight, np.float64) - 1) * label
    never = -1e30  # no label is ignored
    return logit, label, Reference(logit, label, factor, False, never, "softplus")


def _reduce(loss, reduction):
    return {"none": loss, "sum": loss.sum(), "mean": loss.mean() if loss.size else np.nan}[
        reduction
    ]


def forward(logit, label, weight=None, reduction="mean", pos_weight=None):
    """The loss: an array for "none", else a scalar."""
    loss = _parts(logit, label, pos_weight)[2].forward()
    loss = loss if weight is None else loss * np.asarray(weight, np.float64)
    return _reduce(loss, reduction)


def backward(grad_out, logit, label, weight=None, reduction="mean", pos_weight=None):
    """{"logit", "label", "weight", "pos_weight"} -> gradient, None for absent inputs."""
    x, y, unweighted = _parts(logit, label, pos_weight)
    grad = np.broadcast_to(np.asarray(grad_out, np.float64), x.shape)
    grad = grad / x.size if reduction == "mean" else grad
    w = 1.0 if weight is None else np.asarray(weight, np.float64)
    softplus = np.vectorize(_softplus, otypes=[np.float64])(-x)
    extra = 0.0 if pos_weight is None else np.asarray(pos_weight, np.float64) - 1
    return {
        "logit": grad * w * unweighted.slope(),
        "label": grad * w * (-x + extra * softplus),
        "weight": None
        if weight is None
        else _sum_to(grad * unweighted.forward(), np.shape(weight)),
        "pos_weight": None
        if pos_weight is None
        else _sum_to(grad * w * y * softplus, np.shape(pos_weight)),
    }

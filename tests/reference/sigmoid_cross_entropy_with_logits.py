"""Sigmoid cross entropy with logits and all its gradients in float64, one element at a time.

pos_weight w is given for each element. With e = exp(-|x|):

    no w        loss = max(x,0) - x*y + log1p(e)
    "log1p"     loss = max(x,0) - x*y + w*log1p(e)
    "softplus"  loss = (1-y)*x + w*(log1p(e) + max(-x,0))

At an infinite x the value is the mathematical limit: a term whose coefficient is 0 is 0.
"""

import math

import numpy as np

IGNORE_DISTANCE = 1e-5


def _times(coefficient, value):
    """coefficient * value, where a coefficient of exactly 0 wins against an infinite value."""
    return 0.0 if coefficient == 0 and not math.isnan(value) else coefficient * value


def _log1p_exp_minus_abs(x):
    return math.log1p(math.exp(-abs(x)))


def _softplus(x):
    return max(x, 0.0) + _log1p_exp_minus_abs(x) if not math.isnan(x) else x


def _sigmoid(x):
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x))  # NaN takes this branch and stays NaN


def element_loss(x, y, w, form):
    """Loss of one element; w is None without pos_weight."""
    tail = _log1p_exp_minus_abs(x)
    if w is None or form == "log1p":
        return _times((1.0 if x > 0 else 0.0) - y, x) + (tail if w is None else w * tail)
    slope = 1 - y if x > 0 else 1 - y - w  # coefficient of x on this side
    return _times(slope, x) + w * tail


def element_grad_x(x, y, w, form):
    """d loss / d x. At the kink of "log1p" (x = 0, w != 1) the central one."""
    if w is None:
        return (1 - y) - _sigmoid(-x) if x > 0 else _sigmoid(x) - y
    if form == "softplus":
        return (1 - y) - w * _sigmoid(-x)
    if x == 0:
        return 0.5 - y
    sign = 1.0 if x > 0 else -1.0
    tail = math.exp(-abs(x)) / (1 + math.exp(-abs(x)))
    return (1.0 if x > 0 else 0.0) - y - w * sign * tail


def element_grad_label(x):
    """d loss / d y, the same in every form."""
    return -x


def element_grad_pos_weight(x, form):
    """d loss / d w."""
    return _softplus(-x) if form == "softplus" else _log1p_exp_minus_abs(x)


def element_second(x, w):
    """d2 loss / d x2, the kink of "log1p" left out."""
    return (1.0 if w is None else w) * _sigmoid(x) * _sigmoid(-x)


class Reference:
    """The operator on whole arrays of one shape; pos_weight may broadcast to it.

    Args as the operator's. `scale` is 1, or 1 / counted elements (0 if there are none).
    """

    def __init__(self, x, label, pos_weight=None, normalize=False, ignore_index=-100, form="log1p"):
        self.x = np.asarray(x, dtype=np.float64)
        self.label = np.asarray(label, dtype=np.float64)
        self.pos_weight = None
        self.form = form
        if pos_weight is not None:
            self.original_shape = np.shape(pos_weight)
            self.pos_weight = np.broadcast_to(np.asarray(pos_weight, np.float64), self.x.shape)
        self.counted = np.abs(self.label - ignore_index) >= IGNORE_DISTANCE
        self.counted |= np.isnan(self.label)
        count = int(self.counted.sum())
        self.scale = (1.0 / count if count else 0.0) if normalize else 1.0

    def _each(self, function):
        """function(x, y, w) of each counted element, scaled; 0 for the ignored ones."""
        result = np.zeros(self.x.shape)
        for at in np.ndindex(*self.x.shape):
            if self.counted[at]:
                w = None if self.pos_weight is None else float(self.pos_weight[at])
                result[at] = function(float(self.x[at]), float(self.label[at]), w) * self.scale
        return result

    def forward(self):
        """Loss, the shape of x."""
        return self._each(lambda x, y, w: element_loss(x, y, w, self.form))

    def slope(self):
        """d loss / d x of each element."""
        return self._each(lambda x, y, w: element_grad_x(x, y, w, self.form))

    def backward(self, grad_out):
        """{"x", "label", "pos_weight"} -> gradient; pos_weight's is summed to its own shape."""
        label = self._each(lambda x, y, w: element_grad_label(x))
        grads = {"x": grad_out * self.slope(), "label": grad_out * label, "pos_weight": None}
        if self.pos_weight is not None:
            full = grad_out * self._each(lambda x, y, w: element_grad_pos_weight(x, self.form))
            grads["pos_weight"] = _sum_to(full, self.original_shape)
        return grads

    def double_backward(self, grad_out, grad_grad_x):
        """Gradients of sum(grad_grad_x * backward(grad_out)["x"]) for {"grad_out", "x"}."""
        second = self._each(lambda x, y, w: element_second(x, w))
        return {"grad_out": grad_grad_x * self.slope(), "x": grad_grad_x * grad_out * second}


def _sum_to(array, shape):
    """Sums a broadcast array back to `shape`."""
    array = (
        array.sum(axis=tuple(range(array.ndim - len(shape)))) if array.ndim > len(shape) else array
    )
    axes = tuple(i for i, s in enumerate(shape) if s == 1 and array.shape[i] != 1)
    return array.sum(axis=axes, keepdims=True) if axes else array

"""Inputs of sigmoid_cross_entropy_with_logits and the comparison of all its results."""

import numpy as np
from modes import evaluate
from numeric import as_float64, assert_close, rounded_to
from reference.sigmoid_cross_entropy_with_logits import Reference

NAMES = ("x", "label", "pos_weight")
SUBSETS = [[n for i, n in enumerate(NAMES) if bits >> i & 1] for bits in range(8)]
FORMS = ("none", "log1p", "softplus")
IGNORED = -1  # the label that arrays() gives to ignored elements


def arrays(dtype, form="none", shape=(4, 5), ignored=True, seed=0):
    """x around 0 and far from it, soft and hard labels, some ignored, weights either side of 1."""
    random = np.random.RandomState(seed)
    x = random.normal(0, 4, shape)
    special = [0.0, -0.0, 17.0, -17.0, 80.0, -80.0, 1e-3]
    x.reshape(-1)[: len(special)] = special[: x.size]
    label = random.uniform(0, 1, shape)
    label.reshape(-1)[2::4] = 1
    label.reshape(-1)[3::4] = 0
    if ignored:
        label.reshape(-1)[5::7] = IGNORED
    data = {"x": x, "label": label, "pos_weight": random.uniform(0.2, 3, shape)}
    data = {name: rounded_to(array, dtype) for name, array in data.items()}
    if form == "none":
        data["pos_weight"] = None
    return data


def attrs_of(form, **attrs):
    """Keyword arguments for one of FORMS."""
    return attrs if form == "none" else {"pos_weight_form": form, **attrs}


def function_of(attrs):
    """The operator as a function of the tensors in the order of NAMES."""
    from paddle_ops import sigmoid_cross_entropy_with_logits

    # Always the same keys: Paddle 2.6's SOT looks for those of an earlier function of this text.
    attrs = {"normalize": False, "ignore_index": -100, "pos_weight_form": "log1p", **attrs}

    def function(x, label, pos_weight):
        return sigmoid_cross_entropy_with_logits(x, label, pos_weight, **attrs)

    return function


def reference_of(data, attrs):
    """The float64 reference on these inputs."""
    plain = [None if data[n] is None else as_float64(data[n]) for n in NAMES]
    rest = dict(attrs)
    form = rest.pop("pos_weight_form", "log1p")
    return Reference(*plain, form=form, **rest)


def cotangent(data, seed=1):
    """A random output gradient of the dtype of x."""
    random = np.random.RandomState(seed)
    return rounded_to(random.uniform(-1, 1, data["x"].shape), data["x"].dtype)


def judge(data, attrs, wanted=NAMES, mode="dygraph", unknown_dims=None):
    """Runs the operator and compares loss and wanted gradients with the reference.

    Returns ({name: gradient}, loss) as the operator computed them.
    """
    grad_out = cotangent(data)
    wanted = [n for n in wanted if data[n] is not None]
    positions = [NAMES.index(n) for n in wanted]
    inputs = [data[n] for n in NAMES]
    outs, grads = evaluate(mode, function_of(attrs), inputs, positions, [grad_out], unknown_dims)
    reference = reference_of(data, attrs)
    right = reference.backward(as_float64(grad_out))
    assert outs[0].dtype == data["x"].dtype
    assert_close(outs[0], reference.forward(), "loss")
    got = {n: grads[NAMES.index(n)] for n in wanted}
    for name in wanted:
        assert got[name] is not None, f"gradient of {name}: missing"
        assert got[name].dtype == data[name].dtype, f"gradient of {name}: {got[name].dtype}"
        assert_close(got[name], right[name], f"gradient of {name}")
    return got, outs[0]

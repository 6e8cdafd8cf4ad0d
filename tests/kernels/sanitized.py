"""Runs every kernel on arrays of exact size: python sanitized.py FOLDER, no Paddle, no pytest.

The module in FOLDER is built with sanitizers, which end the process at the first access outside of
an array. NaN and huge offsets are among the data, and every element type.
"""

import itertools
import os
import sys

import numpy as np

sys.path.insert(0, sys.argv[1])
import _kernels

RANDOM = np.random.RandomState(0)
TYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": "bits"}
# x, weight, stride, padding, dilation, groups, deformable groups
CONVOLUTIONS = [
    ((2, 5, 7, 9), (6, 5, 3, 2), [2, 1], [1, 0, 2, 1], [1, 1], 1, 1),
    ((3, 12, 6, 8), (8, 3, 2, 3), [1, 2], [1, 1, 0, 2], [2, 1], 4, 3),
    ((1, 70, 9, 11), (33, 70, 3, 3), [1, 1], [1, 1, 1, 1], [1, 2], 1, 2),
    ((37, 3, 4, 5), (6, 3, 3, 3), [2, 3], [3, 3, 2, 2], [1, 1], 1, 1),
    ((2, 2100, 3, 2), (5, 2100, 3, 3), [1, 1], [1, 1, 1, 1], [1, 1], 1, 1),
    ((1, 17, 13, 14), (1, 17, 9, 11), [1, 1], [4, 4, 5, 5], [1, 1], 1, 1),
    ((1, 150, 5, 6), (150, 1, 3, 2), [1, 1], [0, 0, 0, 0], [1, 1], 150, 3),
    ((1, 2, 25, 28), (3, 2, 24, 25), [1, 2], [1, 1, 0, 0], [1, 1], 1, 1),
    ((2, 12, 6, 8), (80, 3, 2, 3), [1, 1], [0, 0, 0, 0], [1, 1], 4, 3),
    ((2, 1, 1, 1), (1, 1, 1, 1), [1, 1], [0, 0, 0, 0], [1, 1], 1, 1),
    ((0, 2, 3, 3), (2, 2, 1, 1), [1, 1], [0, 0, 0, 0], [1, 1], 1, 1),
]


def array(shape, kind, low=-1.0, high=1.0):
    values = RANDOM.uniform(low, high, shape).astype(np.float32)
    if kind == "bfloat16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(TYPES[kind])


def run_convolution(case, kind, index_bits):
    x, weight, stride, padding, dilation, groups, deformable = case
    out = [
        (x[2 + i] + sum(padding[2 * i : 2 * i + 2]) - dilation[i] * (weight[2 + i] - 1) - 1)
        // stride[i]
        + 1
        for i in range(2)
    ]
    taps = deformable * weight[2] * weight[3]
    offset = array((x[0], 2 * taps, *out), kind, -3, 3)
    if kind != "bfloat16":
        wild = offset.reshape(-1)[:: max(1, offset.size // 40)]
        wild[...] = np.resize([np.nan, np.inf, -np.inf, 6e4, -6e4, -1.0], wild.shape)
    inputs = {
        "x": array(x, kind),
        "offset": offset,
        "weight": array(weight, kind),
        "mask": array((x[0], taps, *out), kind),
    }
    options = {
        "strides": stride,
        "paddings": padding,
        "dilations": dilation,
        "groups": groups,
        "deformable_groups": deformable,
        "index_bits": index_bits,
    }
    bias = array(weight[:1], kind)
    result = array((x[0], weight[0], *out), kind)
    _kernels.deform_conv2d_forward(out=result, bias=bias, **inputs, **options)
    assert kind == "bfloat16" or np.isfinite(result).all()
    grads = {f"grad_{name}": np.empty_like(value) for name, value in inputs.items()}
    grads["grad_bias"] = np.empty_like(bias)
    for rule, wanted in itertools.product(
        ("paddle", "torchvision"), (grads, [*grads][:1], [*grads][2:3])
    ):
        some = {name: grads[name] for name in wanted}
        _kernels.deform_conv2d_backward(
            grad_out=result, boundary_grad=rule, **inputs, **some, **options
        )


def run_cross_entropy(size, kind):
    x, label, weight = (array((size,), kind, 0, 2) for _ in range(3))
    out = np.empty_like(x)
    for form in ("log1p", "softplus"):
        options = {"pos_weight": weight, "normalize": True, "pos_weight_form": form}
        _kernels.sigmoid_cross_entropy_with_logits_forward(x=x, label=label, out=out, **options)
        grads = {f"grad_{name}": np.empty_like(x) for name in ("x", "label", "pos_weight")}
        _kernels.sigmoid_cross_entropy_with_logits_backward(
            x=x, label=label, grad_out=out, **grads, **options
        )


for target in ("baseline", "avx2", "avx512"):
    os.environ["PADDLE_OPS_TARGET"] = target
    for kind in TYPES:
        for case, bits in itertools.product(CONVOLUTIONS, (32, 64)):
            run_convolution(case, kind, bits)
        for size in (0, 1, 15, 16, 17, 4097, 10000):
            run_cross_entropy(size, kind)
print("nothing outside of an array")

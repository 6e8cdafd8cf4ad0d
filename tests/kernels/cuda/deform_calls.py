"""How the tests of the CUDA deform_conv2d call it and judge it."""

import numpy as np
from deform_cases import NAMES, expected
from numeric import assert_close, rounded_to

OP = "deform_conv2d"


def options_of(case):
    return {
        "strides": list(case.stride),
        "paddings": list(case.padding),
        "dilations": list(case.dilation),
        "groups": case.groups,
        "deformable_groups": case.deformable_groups,
    }


def filled(shape, dtype):
    """Neither zeros, which additions could rely on, nor NaN, which bfloat16 may not show."""
    return np.full(shape, 7, dtype)


def forward(kernels, case, data, new=filled, **options):
    out = new((case.x[0], case.kernel[0], *case.output_size()), data["x"].dtype)
    kernels.deform_conv2d_forward(out=out, **data, **options_of(case), **options)
    return out


def grad_out_of(case, dtype):
    shape = (case.x[0], case.kernel[0], *case.output_size())
    return rounded_to(np.cos(np.arange(np.prod(shape))).reshape(shape), dtype)


def backward(kernels, case, data, grad_out, wanted=NAMES, new=filled, **options):
    wanted = [name for name in wanted if data[name] is not None]
    grads = {name: new(data[name].shape, data[name].dtype) for name in wanted}
    inputs = {name: data[name] for name in NAMES if name != "bias"}
    kernels.deform_conv2d_backward(
        grad_out=grad_out,
        **inputs,
        **{f"grad_{name}": grad for name, grad in grads.items()},
        **options_of(case),
        **options,
    )
    return grads


def everything(kernels, case, data, **options):
    """out and all gradients."""
    grad_out = grad_out_of(case, data["x"].dtype)
    only_backward = ("deterministic", "boundary_grad")
    common = {name: value for name, value in options.items() if name not in only_backward}
    out = forward(kernels, case, data, **common)
    return {"out": out, **backward(kernels, case, data, grad_out, **options)}


def right_of(case, data, **attrs):
    grad_out = grad_out_of(case, data["x"].dtype)
    grads, out = expected(data, {**case.attrs(), **attrs}, grad_out)
    return {"out": out, **{name: grads[name] for name in NAMES if data[name] is not None}}


def judge(kernels, case, data, attrs=(), **options):
    got = everything(kernels, case, data, **options)
    for name, right in right_of(case, data, **dict(attrs)).items():
        assert_close(got[name], right, name)
    return got


def assert_same_bits(one, other, names=None):
    for name in names or one:
        assert one[name].tobytes() == other[name].tobytes(), name

"""deform_conv2d as OpTest classes, in the words of Paddle's own tests of `deformable_conv`.

They run unchanged beside Paddle's op_test.py: op_type names Paddle's operator, whose kernels this
one is meant to replace, and python_api is ours in the order of that kernel's arguments. What
Paddle's operator cannot express (bias, four paddings) is in test_deform_conv2d.py.
"""

import unittest

import numpy as np
from deform_cases import Case
from op_test import OpTest, convert_float_to_uint16, convert_uint16_to_float
from reference import deform_conv2d as reference

from paddle_ops import deform_conv2d


def deform_conv2d_wrapper(
    x,
    offset,
    weight,
    mask=None,
    stride=1,
    padding=0,
    dilation=1,
    deformable_groups=1,
    groups=1,
    im2col_step=1,
):
    """deform_conv2d in the argument order of the kernel `deformable_conv`."""
    return deform_conv2d(
        x, offset, weight, None, stride, padding, dilation, deformable_groups, groups, mask
    )


def reference_grad(inputs, attrs, grad_outputs):
    """Gradients by the operator's input names."""
    grads = reference.backward(
        grad_outputs["Output"],
        inputs["Input"],
        inputs["Offset"],
        inputs["Filter"],
        stride=attrs["strides"],
        padding=attrs["paddings"],
        dilation=attrs["dilations"],
        deformable_groups=attrs["deformable_groups"],
        groups=attrs["groups"],
        mask=inputs.get("Mask"),
    )
    names = {"Input": "x", "Offset": "offset", "Filter": "weight", "Mask": "mask"}
    return {ours: grads[theirs] for ours, theirs in names.items()}


class TestDeformConv2d(OpTest):
    """Mask, one group, rectangular everything, fp64."""

    case = Case((2, 4, 5, 6), (4, 3, 2), (2, 1), (1, 1, 2, 2), (1, 2), bias=False)
    dtype_of_case = np.float64

    def setUp(self):
        self.op_type = "deformable_conv"
        self.python_api = deform_conv2d_wrapper
        self.reference_grad = reference_grad
        self.dtype = self.dtype_of_case
        case = self.case
        data = case.arrays(np.float64)
        top, _, left, _ = case.padding
        attrs = {
            "stride": case.stride,
            "padding": (top, left),
            "dilation": case.dilation,
            "deformable_groups": case.deformable_groups,
            "groups": case.groups,
        }
        stored = {n: None if a is None else self.store(a) for n, a in data.items()}
        loaded = {n: None if a is None else self.load(a) for n, a in stored.items()}
        inputs = [loaded[n] for n in ("x", "offset", "weight")]
        out = reference.forward(*inputs, mask=loaded["mask"], **attrs)
        self.inputs = {"Input": stored["x"], "Offset": stored["offset"]}
        if stored["mask"] is not None:
            self.inputs["Mask"] = stored["mask"]
        self.inputs["Filter"] = stored["weight"]
        self.attrs = {
            "strides": list(case.stride),
            "paddings": [top, left],
            "groups": case.groups,
            "deformable_groups": case.deformable_groups,
            "im2col_step": 1,
            "dilations": list(case.dilation),
        }
        self.outputs = {"Output": self.store(out)}

    def store(self, array):
        """An array in the type of the case."""
        if self.dtype_of_case == np.uint16:
            return convert_float_to_uint16(array)
        return array.astype(self.dtype_of_case)

    def load(self, array):
        """Its exact values in float64."""
        if self.dtype_of_case == np.uint16:
            array = convert_uint16_to_float(array)
        return array.astype(np.float64)

    def test_check_output(self):
        self.check_output(check_pir=True)

    def test_check_grad(self):
        self.check_grad(list(self.inputs), "Output", check_pir=True)


class TestOneInputAtATime(TestDeformConv2d):
    """Each gradient alone, all other inputs with stop_gradient=True."""

    case = Case((1, 2, 4, 5), (2, 3, 2), (2, 1), (1, 1, 0, 0), bias=False)

    def test_check_grad(self):
        for name in self.inputs:
            self.check_grad([name], "Output", check_pir=True)


class TestWithoutMask(TestDeformConv2d):
    case = Case((2, 3, 4, 6), (2, 2, 3), (1, 2), (1, 1, 0, 0), bias=False, mask=False)


class TestWithGroups(TestDeformConv2d):
    case = Case((1, 4, 4, 5), (6, 3, 2), (1, 1), (1, 1, 0, 0), groups=2, bias=False)


class TestWithDeformableGroups(TestDeformConv2d):
    case = Case((1, 4, 4, 5), (4, 2, 3), (1, 2), (0, 0, 1, 1), deformable_groups=2, bias=False)


class TestWithBothGroups(TestDeformConv2d):
    case = Case(
        (1, 6, 4, 3), (6, 2, 2), (1, 1), (1, 1, 1, 1), groups=2, deformable_groups=3, bias=False
    )


class TestWithDilation(TestDeformConv2d):
    case = Case((1, 2, 6, 7), (2, 2, 3), (1, 1), (2, 2, 1, 1), (3, 2), bias=False)


class TestWith1x1(TestDeformConv2d):
    case = Case((2, 3, 5, 4), (7, 1, 1), bias=False)


class TestFloat32(TestDeformConv2d):
    dtype_of_case = np.float32


class TestFloat16(TestDeformConv2d):
    dtype_of_case = np.float16


class TestBFloat16(TestDeformConv2d):
    dtype_of_case = np.uint16


if __name__ == "__main__":
    unittest.main()

"""The harness itself: each way an operator can be wrong must make it fail.

`product(x, w) = x * w` is the right function; each wrong one below differs from it in exactly one
respect. `x - x.detach()` is zero with slope one, so it changes a gradient and no value.
"""

import numpy as np
import paddle
import pytest
from numeric import as_float64, rounded_to
from op_test import OpTest, convert_float_to_uint16, convert_uint16_to_float, skip_check_grad_ci


def product(x, w):
    return x * w


def slope(x):
    return x - x.detach()


def wrong_value(x, w):
    return x * w + 1e-5


def nan_value(x, w):
    zero = x - x
    return x * w + zero / zero


def wrong_shape(x, w):
    return (x * w).reshape([-1])


def wrong_dtype(x, w):
    return (x * w).astype("float32")


def wrong_outside_dynamic_mode(x, w):
    return x * w if paddle.in_dynamic_mode() else x * w * 1.001


def wrong_gradient(x, w):
    return x * w + 5e-6 * slope(x)


def wrong_gradient_outside_dynamic_mode(x, w):
    return x * w if paddle.in_dynamic_mode() else x * w + 1e-3 * slope(x)


def missing_gradient(x, w):
    return x.detach() * w


def nan_gradient(x, w):
    return x * w + paddle.sqrt(x * 0.0) * 0.0


def exchanged_gradients(x, w):
    return x * w + slope(x.flip([0]) * w.flip([0])) - slope(x * w)


def make_case(function, dtype=np.float64, **changes):
    """An OpTest instance of x * w with `function` as its python_api."""

    class Case(OpTest):
        def setUp(self):
            self.op_type = "product_of_two"
            self.python_api = function
            x = np.random.uniform(0.5, 2, (3, 4))
            w = np.random.uniform(0.5, 2, (3, 4))
            self.inputs = {"X": rounded_to(x, dtype), "W": rounded_to(w, dtype)}
            right = as_float64(self.inputs["X"]) * as_float64(self.inputs["W"])
            self.outputs = {"Out": rounded_to(right, dtype)}
            self.reference_grad = self.right_gradients

        @staticmethod
        def right_gradients(inputs, attrs, grad_outputs):
            grad = grad_outputs["Out"]
            return {"X": grad * inputs["W"], "W": grad * inputs["X"]}

        def runTest(self):
            pass

    Case.setUpClass()
    case = Case()
    case.setUp()
    for name, value in changes.items():
        setattr(case, name, value)
    return case


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint16])
def test_right_function_passes(dtype):
    case = make_case(product, dtype)
    case.check_output()
    case.check_grad(["X", "W"], "Out")
    case.check_grad({"W"}, ["Out"])


@pytest.mark.parametrize(
    "function", [wrong_value, nan_value, wrong_shape, wrong_dtype, wrong_outside_dynamic_mode]
)
def test_wrong_output_fails(function):
    with pytest.raises(AssertionError):
        make_case(function).check_output()


@pytest.mark.parametrize(
    "function",
    [
        wrong_gradient,
        wrong_gradient_outside_dynamic_mode,
        missing_gradient,
        nan_gradient,
        exchanged_gradients,
    ],
)
def test_wrong_gradient_fails(function):
    case = make_case(function)
    case.check_output()  # the value is right: only the gradient can be what fails
    with pytest.raises(AssertionError):
        case.check_grad(["X"], "Out")


def test_tolerance_of_the_caller_cannot_hide_a_wrong_gradient():
    with pytest.raises(AssertionError):
        make_case(wrong_gradient).check_grad(["X"], "Out", max_relative_error=0.05)


def test_finite_differences_alone_find_a_wrong_gradient():
    case = make_case(wrong_gradient)
    del case.reference_grad
    with pytest.raises(AssertionError, match="finite differences"):
        case.check_grad(["X"], "Out")


def test_reference_alone_finds_a_wrong_gradient():
    """A class whose forward and backward are wrong alike satisfies finite differences."""
    case = make_case(wrong_value)
    case.python_api = lambda x, w: x * w * (1 + 1e-5)
    with pytest.raises(AssertionError, match="reference"):
        case.check_grad(["X"], "Out")


def test_user_defined_grads_are_compared():
    case = make_case(product)
    right = [np.full((3, 4), 1 / 12) * case.inputs["W"]]
    case.check_grad(["X"], "Out", user_defined_grads=right)
    with pytest.raises(AssertionError):
        case.check_grad(["X"], "Out", user_defined_grads=[right[0] * (1 + 1e-5)])


def test_expected_nan_needs_equal_nan():
    case = make_case(nan_value)
    case.outputs = {"Out": np.full((3, 4), np.nan)}
    with pytest.raises(AssertionError):
        case.check_output()
    case.check_output(equal_nan=True)
    case.outputs["Out"][1, 1] = 0
    with pytest.raises(AssertionError):
        case.check_output(equal_nan=True)


def test_unknown_names_fail():
    case = make_case(product)
    with pytest.raises(AssertionError):
        case.check_grad(["Y"], "Out")
    with pytest.raises(AssertionError):
        case.check_grad(["X"], "Result")
    with pytest.raises(AssertionError):
        case.check_grad(["X"], "Out", no_grad_set={"X"})
    case.op_type = "deformable_conv"
    with pytest.raises(AssertionError):
        case.check_output()


def test_arguments_follow_the_kernel_signature():
    """Attributes arrive by the kernel's order, absent inputs and attributes as defaults."""
    seen = []

    def api(x, label, pos_weight=None, normalize=False, ignore_index=-100, name=None):
        seen.append((pos_weight, normalize, ignore_index, name))
        return x - label

    case = make_case(api, op_type="sigmoid_cross_entropy_with_logits")
    case.inputs = {"X": case.inputs["X"], "Label": case.inputs["W"]}
    case.attrs = {"ignore_index": -1}
    case.outputs = {"Out": case.inputs["X"] - case.inputs["Label"]}
    case.check_output()
    assert seen[0] == (None, False, -1, None)


def test_bfloat16_conversion_rounds_to_nearest_even():
    exact = np.array([1.0, -2.5, 0.0, np.inf, -np.inf])
    assert np.array_equal(convert_uint16_to_float(convert_float_to_uint16(exact)), exact)
    ulp = 2.0**-7
    values = np.array([1 + 0.5 * ulp, 1 + 1.5 * ulp, 1 + 0.5 * ulp + 1e-12, 1 + 1.5 * ulp - 1e-12])
    expected = np.array([1, 1 + 2 * ulp, 1 + ulp, 1 + ulp])
    assert np.array_equal(convert_uint16_to_float(convert_float_to_uint16(values)), expected)
    assert np.isnan(convert_uint16_to_float(convert_float_to_uint16(np.array([np.nan]))))[0]


def test_skipping_needs_a_reason():
    with pytest.raises(AssertionError):
        skip_check_grad_ci()

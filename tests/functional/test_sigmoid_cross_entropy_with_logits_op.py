"""sigmoid_cross_entropy_with_logits as OpTest classes, in the words of Paddle's own tests.

The classes are those of Paddle's test_sigmoid_cross_entropy_with_logits_op.py and more; Paddle's
kernel of version 3 computes what is the form "softplus" here.
"""

import unittest

import numpy as np
import tolerances
from op_test import OpTest, convert_float_to_uint16, convert_uint16_to_float
from reference.sigmoid_cross_entropy_with_logits import Reference

from paddle_ops import sigmoid_cross_entropy_with_logits


def log1p_wrapper(x, label, pos_weight=None, normalize=False, ignore_index=-100):
    return sigmoid_cross_entropy_with_logits(x, label, pos_weight, normalize, ignore_index)


def softplus_wrapper(x, label, pos_weight=None, normalize=False, ignore_index=-100):
    return sigmoid_cross_entropy_with_logits(
        x, label, pos_weight, normalize, ignore_index, "softplus"
    )


class TestSigmoidCrossEntropyWithLogits(OpTest):
    """Hard labels, fp64, the shape of Paddle's tests; subclasses change one thing each."""

    form = "log1p"
    shape = (64, 20)
    stored_dtype = np.float64
    weighted = False
    attributes = {}
    checked = ("X",)

    def labels(self, random):
        return random.randint(0, 2, self.shape)

    def setUp(self):
        self.op_type = "sigmoid_cross_entropy_with_logits"
        self.python_api = log1p_wrapper if self.form == "log1p" else softplus_wrapper
        random = np.random.RandomState(5)
        p = random.uniform(0.01, 0.99, self.shape)
        values = {"X": np.log(p / (1 - p)), "Label": self.labels(random)}
        if self.weighted:
            values["pos_weight"] = random.uniform(0, 2, self.shape)
        self.inputs = {name: self.store(value) for name, value in values.items()}
        self.attrs = {"normalize": False, "ignore_index": -100, **self.attributes}
        loaded = {name: self.load(value) for name, value in self.inputs.items()}
        self.outputs = {"Out": self.store(self.reference(loaded, self.attrs).forward())}
        self.reference_grad = self.gradients

    def store(self, values):
        if self.stored_dtype == np.uint16:
            return convert_float_to_uint16(values)
        return np.asarray(values).astype(self.stored_dtype)

    def load(self, stored):
        return convert_uint16_to_float(stored) if stored.dtype == np.uint16 else stored

    def reference(self, inputs, attrs):
        arguments = [inputs["X"], inputs["Label"], inputs.get("pos_weight")]
        return Reference(*arguments, attrs["normalize"], attrs["ignore_index"], self.form)

    def gradients(self, inputs, attrs, grad_outputs):
        grads = self.reference(inputs, attrs).backward(grad_outputs["Out"])
        return {"X": grads["x"], "Label": grads["label"], "pos_weight": grads["pos_weight"]}

    def test_check_output(self):
        self.check_output(check_pir=True)

    def test_check_grad(self):
        self.check_grad(list(self.checked), "Out", max_relative_error=tolerances.FP64_GRAD)


class TestIgnoreIndex(TestSigmoidCrossEntropyWithLogits):
    attributes = {"ignore_index": -1}

    def labels(self, random):
        return random.randint(-1, 2, self.shape)


class TestSoftLabels(TestSigmoidCrossEntropyWithLogits):
    checked = ("X", "Label")

    def labels(self, random):
        return random.uniform(0, 1, self.shape)


class TestNormalize(TestIgnoreIndex):
    attributes = {"ignore_index": -1, "normalize": True}


class TestPosWeight(TestSoftLabels):
    """The public report of the wrong pos_weight gradient: its shape, type and distributions."""

    weighted = True
    checked = ("X", "Label", "pos_weight")


class TestPosWeightSoftplus(TestPosWeight):
    form = "softplus"


class TestPosWeightNormalize(TestPosWeight):
    """Not checked for Label: a difference of an ignored label counts the element again."""

    shape = (9, 7)
    checked = ("X", "pos_weight")
    attributes = {"ignore_index": 0, "normalize": True}

    def labels(self, random):
        return random.randint(0, 3, self.shape) / 2


class TestPosWeightNormalizeSoftplus(TestPosWeightNormalize):
    form = "softplus"


class TestFourDimensions(TestPosWeight):
    shape = (2, 3, 4, 5)


class TestFp32(TestPosWeight):
    shape = (6, 7)
    stored_dtype = np.float32


class TestFp16(TestFp32):
    stored_dtype = np.float16


class TestBf16(TestFp32):
    stored_dtype = np.uint16


class TestFp32Softplus(TestFp32):
    form = "softplus"


class TestFp16Softplus(TestFp16):
    form = "softplus"


class TestBf16Softplus(TestBf16):
    form = "softplus"


if __name__ == "__main__":
    unittest.main()

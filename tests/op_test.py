"""Paddle's OpTest vocabulary for operators that live outside Paddle.

A test class written for this module also runs beside Paddle's own `op_test.py`: the same
attributes (op_type, python_api, inputs, attrs, outputs, dtype), the same methods (check_output,
check_grad, ...) and the same way of calling `python_api`. What differs is what gets checked:

* every mode (dynamic graph, static graph, to_static by AST and by SOT), not only the one asked for;
* gradients against central differences in float64 under two cotangents, the mean that Paddle uses
  and a random one (a mean cannot see two exchanged output gradients);
* gradients against the reference's own analytic ones, if the class sets `self.reference_grad`, a
  function (inputs, attrs, grad_outputs) -> {input name: gradient} on float64 dictionaries;
* a NaN, a wrong shape, a wrong dtype or a missing gradient fails, always.

PYTEST_DONT_REWRITE: pytest takes `op_test.py` for a test file, and SOT crashes on a traced
function whose asserts pytest has rewritten.
"""

import inspect
import unittest

import numpy as np
import tolerances
from modes import MODES, evaluate
from numeric import (
    as_float64,
    assert_elements,
    assert_same_kind,
    bfloat16_bits,
    bfloat16_values,
    central_difference,
    rounded_to,
)

# Paddle calls python_api with the arguments of the kernel's signature, by position. The order of
# these two kernels, as Paddle's signature files have it: (inputs, attributes, outputs).
KERNEL_ARGUMENTS = {
    "deformable_conv": (
        ("Input", "Offset", "Filter", "Mask"),
        ("strides", "paddings", "dilations", "deformable_groups", "groups", "im2col_step"),
        ("Output",),
    ),
    "sigmoid_cross_entropy_with_logits": (
        ("X", "Label", "pos_weight"),
        ("normalize", "ignore_index"),
        ("Out",),
    ),
}

# Parameters of python_api that Paddle's OpTest leaves at their defaults.
DEFAULTED_PARAMETERS = {"name", "dtype", "out", "output"}


def convert_float_to_uint16(float_list, data_format="NCHW"):
    """bfloat16 bits of an array, rounded to nearest even."""
    if data_format == "NHWC":
        return np.moveaxis(bfloat16_bits(np.moveaxis(float_list, 3, 1)), 1, 3)
    return bfloat16_bits(float_list)


def convert_uint16_to_float(in_list):
    """float32 values of bfloat16 bits."""
    return bfloat16_values(in_list)


def skip_check_grad_ci(reason=None):
    """Marks a class that checks no gradient; the reason is not optional."""
    if not isinstance(reason, str):
        raise AssertionError("The reason for skipping check_grad is required.")

    def mark(cls):
        cls.no_need_check_grad = True
        return cls

    return mark


class OpTest(unittest.TestCase):
    """Base class of operator tests; setUp of the subclass states the case."""

    @classmethod
    def setUpClass(cls):
        cls._random_state = np.random.get_state()
        cls.dtype = None
        np.random.seed(123)

    @classmethod
    def tearDownClass(cls):
        np.random.set_state(cls._random_state)

    @staticmethod
    def np_dtype_to_base_dtype(input):
        """Paddle's hook for arrays of dtypes that NumPy lacks; nothing to do."""
        return input

    # -- how python_api is called ---------------------------------------------------------------

    def _signature(self):
        attrs = getattr(self, "attrs", {})
        here = (tuple(self.inputs), tuple(attrs), tuple(self.outputs))
        known = KERNEL_ARGUMENTS.get(self.op_type, here)
        for ours, theirs, what in zip(here, known, ("input", "attribute", "output")):
            unknown = set(ours) - set(theirs)
            assert not unknown, f"{self.op_type} has no {what} {sorted(unknown)}"
        return known

    def _arguments(self):
        """Arguments of python_api in order, as [(input position or None, constant)]."""
        inputs, attributes, _ = self._signature()
        attrs = getattr(self, "attrs", {})
        positions = {name: i for i, name in enumerate(self.inputs)}
        given = [(name, positions.get(name), None) for name in inputs]
        given += [(name, None, attrs.get(name)) for name in attributes]
        given = iter(given)
        arguments = []
        for p in inspect.signature(self.python_api).parameters.values():
            absent = (p.name, None, None)
            ours = absent if p.name in DEFAULTED_PARAMETERS else next(given, absent)
            name, position, value = ours
            if position is None and value is None:
                assert p.default is not p.empty, f"{p.name} ({name}) needs a value"
                value = p.default
            arguments.append((position, value))
        return arguments

    def _function(self):
        """python_api as a function of the input tensors alone."""
        api, arguments = self.python_api, self._arguments()

        def call(*tensors):
            values = []  # SOT on Python 3.11 cannot trace a comprehension over a closure
            for position, value in arguments:
                values.append(value if position is None else tensors[position])
            return api(*values)

        return call

    def _prepare(self):
        for name, value in {**self.inputs, **self.outputs}.items():
            assert isinstance(value, np.ndarray), f"{name}: expected an array, got {type(value)}"
        self._signature()
        first = list(self.inputs.values())[0]
        self.dtype = self.__class__.dtype = first.dtype

    # -- the two checks -------------------------------------------------------------------------

    def check_output(
        self,
        atol=None,
        rtol=None,
        no_check_set=None,
        equal_nan=False,
        check_dygraph=True,
        check_prim=False,
        check_cinn=False,
        check_pir=False,
        check_new_ir=False,
        check_prim_pir=False,
        inplace_atol=None,
    ):
        """Compares the outputs in every mode with self.outputs.

        Args:
            atol, rtol: as NumPy's; default by dtype from tolerances.py.
            no_check_set: names of outputs left out.
            equal_nan: a NaN is wrong unless this is set; then it must be at the same place.
            Others: accepted for Paddle's sake; they choose modes, and here all are run.
        """
        self._prepare()
        arrays = list(self.inputs.values())
        for mode in MODES:
            outputs, _ = evaluate(mode, self._function(), arrays)
            assert len(outputs) == len(self.outputs), f"{mode}: {len(outputs)} outputs"
            for got, (name, expected) in zip(outputs, self.outputs.items()):
                if name not in (no_check_set or ()):
                    what = f"{self.op_type} {name} ({mode})"
                    self._compare_output(got, expected, atol, rtol, equal_nan, what)

    def _compare_output(self, got, expected, atol, rtol, equal_nan, what):
        assert_same_kind(got, expected, what)
        default_atol, default_rtol = tolerances.default_output(expected.dtype)
        got, expected = as_float64(got), as_float64(expected)
        assert equal_nan or not np.isnan(got).any(), f"{what}: NaN"
        np.testing.assert_allclose(
            got,
            expected,
            atol=default_atol if atol is None else atol,
            rtol=default_rtol if rtol is None else rtol,
            equal_nan=equal_nan,
            err_msg=what,
        )

    def check_grad(
        self,
        inputs_to_check,
        output_names,
        no_grad_set=None,
        numeric_grad_delta=tolerances.NUMERIC_DELTA,
        in_place=False,
        max_relative_error=None,
        user_defined_grads=None,
        user_defined_grad_outputs=None,
        check_dygraph=True,
        check_prim=False,
        check_cinn=False,
        check_pir=False,
        check_new_ir=False,
        check_prim_pir=False,
        atol=None,
    ):
        """Compares the gradients in every mode with finite differences and with the reference's.

        Args:
            inputs_to_check: names of inputs; all others have stop_gradient=True.
            output_names: a name or a list of names of outputs that make the loss.
            no_grad_set: names that must not be in inputs_to_check.
            numeric_grad_delta: half the distance of the two evaluations, in float64.
            max_relative_error: in units of max(|a|, floor * max|a|), see tolerances.default_grad;
                a larger value than the default of the dtype has no effect, since Paddle's own
                files pass 5e-3 and more.
            user_defined_grads: expected gradients instead of finite differences.
            user_defined_grad_outputs: cotangents; default the mean of each output.
            atol: accepted for Paddle's sake; the metric above needs none.
        """
        self._prepare()
        names = [n for n in self.inputs if n in set(inputs_to_check)]
        assert len(names) == len(set(inputs_to_check)), f"unknown input in {inputs_to_check}"
        assert not set(names) & set(no_grad_set or ()), f"{no_grad_set} is asked for"
        output_names = [output_names] if isinstance(output_names, str) else list(output_names)
        limit, floor = tolerances.default_grad(self.dtype)
        limit = min(limit, max_relative_error or limit)
        cotangents = self._cotangents(output_names, user_defined_grad_outputs)
        if user_defined_grads is not None:
            order = list(inputs_to_check)
            grads = {n: as_float64(user_defined_grads[order.index(n)]) for n in names}
            expected = [("given", 0, grads)]
        else:
            expected = self._numeric(names, cotangents, numeric_grad_delta)
        expected += self._analytic(names, cotangents)
        for mode in MODES:
            for index, cotangent in enumerate(cotangents):
                got = self._gradients(mode, names, cotangent)
                for source, which, grads in expected:
                    if which == index:
                        self._compare_grads(got, grads, limit, floor, f"{mode}, {source}")

    def _compare_grads(self, got, expected, limit, floor, where):
        for name, value in expected.items():
            what = f"{self.op_type} gradient of {name} ({where})"
            wanted = rounded_to(value, self.inputs[name].dtype)
            assert_elements(got[name], wanted, limit, floor, what)

    def _cotangents(self, output_names, given):
        """List of {output name: float64 cotangent}: the mean, and a random one."""
        for name in output_names:
            assert name in self.outputs, f"no output {name}"
        if given is not None:
            given = given if isinstance(given, (list, tuple)) else [given]
            return [{n: as_float64(g) for n, g in zip(output_names, given)}]
        random = np.random.RandomState(7)
        mean, mixed = {}, {}
        for name in output_names:
            out = self.outputs[name]
            mean[name] = np.full(out.shape, 1.0 / (max(out.size, 1) * len(output_names)))
            mixed[name] = random.uniform(-1, 1, out.shape) + 0.25
        # The operator sees cotangents in its own type, so everyone must see the rounded ones.
        dtypes = {n: self.outputs[n].dtype for n in output_names}
        return [
            {n: as_float64(rounded_to(v, dtypes[n])) for n, v in c.items()} for c in (mean, mixed)
        ]

    def _gradients(self, mode, names, cotangent):
        arrays = list(self.inputs.values())
        positions = {name: i for i, name in enumerate(self.inputs)}
        outputs = list(self.outputs)
        grad_outputs = [
            rounded_to(cotangent.get(n, np.zeros(self.outputs[n].shape)), self.outputs[n].dtype)
            for n in outputs
        ]
        wanted = [positions[n] for n in names]
        _, grads = evaluate(mode, self._function(), arrays, wanted, grad_outputs)
        return {n: grads[positions[n]] for n in names}

    def _numeric(self, names, cotangents, delta):
        """Central differences of python_api itself, run in float64 whatever the dtype is."""
        arrays = [
            as_float64(a) if a.dtype.kind == "f" or a.dtype == np.uint16 else a
            for a in self.inputs.values()
        ]
        outputs = list(self.outputs)
        listed = [[c.get(n, 0.0) for n in outputs] for c in cotangents]
        found = [("finite differences", i, {}) for i in range(len(cotangents))]
        for position, name in enumerate(self.inputs):
            if name not in names:
                continue

            def function(changed, position=position):
                now = list(arrays)
                now[position] = changed
                return evaluate("dygraph", self._function(), now)[0]

            grads = central_difference(function, arrays[position], listed, delta)
            for (_, _, by_name), grad in zip(found, grads):
                by_name[name] = grad
        return found

    def _analytic(self, names, cotangents):
        reference = getattr(self, "reference_grad", None)
        if reference is None:
            return []
        inputs = {n: as_float64(a) for n, a in self.inputs.items()}
        found = []
        for i, cotangent in enumerate(cotangents):
            grads = reference(inputs, getattr(self, "attrs", {}), cotangent)
            found.append(("reference", i, {n: grads[n] for n in names}))
        return found

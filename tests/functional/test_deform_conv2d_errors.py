"""Bad input is refused before a kernel runs, by the function and by the operator itself."""

import numpy as np
import paddle
import pytest
from deform_cases import NAMES, Case, function_of
from modes import static_guard, tensor

GOOD = Case((2, 4, 5, 6), (6, 3, 2), (1, 2), (1, 0, 1, 1), groups=2, deformable_groups=2)


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


_SHAPES = GOOD.shapes()
_OH, _OW = GOOD.output_size()

# (argument at fault, changed arrays, changed attributes, type of the error)
BAD_SHAPES = {
    "x_rank": ("x", {"x": zeros(4, 5, 6)}),
    "offset_rank": ("offset", {"offset": zeros(24, _OH, _OW)}),
    "weight_rank": ("weight", {"weight": zeros(6, 2, 6)}),
    "mask_rank": ("mask", {"mask": zeros(2, 12, _OH * _OW)}),
    "bias_rank": ("bias", {"bias": zeros(6, 1)}),
    "offset_batch": ("offset", {"offset": zeros(1, *_SHAPES["offset"][1:])}),
    "offset_batch_larger": ("offset", {"offset": zeros(3, *_SHAPES["offset"][1:])}),
    "mask_batch": ("mask", {"mask": zeros(1, *_SHAPES["mask"][1:])}),
    "offset_channels": ("offset", {"offset": zeros(2, 23, _OH, _OW)}),
    "offset_channels_of_one_group": ("offset", {"offset": zeros(2, 12, _OH, _OW)}),
    "mask_channels": ("mask", {"mask": zeros(2, 6, _OH, _OW)}),
    "mask_like_offset": ("mask", {"mask": zeros(2, 24, _OH, _OW)}),
    "offset_height": ("offset", {"offset": zeros(2, 24, _OH + 2, _OW)}),
    "offset_width": ("offset", {"offset": zeros(2, 24, _OH, _OW - 1)}),
    "offset_of_the_image_size": ("offset", {"offset": zeros(2, 24, 5, 6)}),
    "mask_height": ("mask", {"mask": zeros(2, 12, _OH - 1, _OW)}),
    "mask_width": ("mask", {"mask": zeros(2, 12, _OH, _OW + 1)}),
    "weight_channels": ("weight", {"weight": zeros(6, 4, 3, 2)}),
    "weight_channels_none": ("weight", {"weight": zeros(6, 0, 3, 2)}),
    "outputs_not_divisible": ("groups", {"weight": zeros(5, 2, 3, 2), "bias": zeros(5)}),
    "bias_length": ("bias", {"bias": zeros(5)}),
    "empty_kernel": ("weight", {"weight": zeros(6, 2, 0, 2)}),
    "empty_image": ("x", {"x": zeros(2, 4, 0, 6)}),
    "kernel_over_image": ("weight", {"weight": zeros(6, 2, 9, 2)}),
    "empty_offset": ("offset", {"offset": zeros(0, 24, _OH, _OW)}),
}

BAD_ATTRIBUTES = {
    "channels_not_divisible_by_groups": ("groups", {"groups": 3}),
    "channels_not_divisible_by_deformable_groups": ("deformable_groups", {"deformable_groups": 3}),
    "groups_zero": ("groups", {"groups": 0}),
    "groups_negative": ("groups", {"groups": -2}),
    "deformable_groups_zero": ("deformable_groups", {"deformable_groups": 0}),
    "deformable_groups_negative": ("deformable_groups", {"deformable_groups": -1}),
    "stride_zero": ("stride", {"stride": [0, 1]}),
    "stride_negative": ("stride", {"stride": [1, -1]}),
    "stride_of_three": ("stride", {"stride": [1, 1, 1]}),
    "dilation_zero": ("dilation", {"dilation": [1, 0]}),
    "dilation_negative": ("dilation", {"dilation": [-1, 1]}),
    "dilation_of_none": ("dilation", {"dilation": []}),
    "padding_negative": ("padding", {"padding": [-1, 0, 1, 1]}),
    "padding_of_three": ("padding", {"padding": [1, 0, 1]}),
    "padding_huge_negative": ("padding", {"padding": [-(2**31), 0, 0, 0]}),
    "dilation_over_image": ("weight", {"dilation": [1000, 1]}),
    "dilation_that_overflows": ("weight", {"dilation": [2**31 - 1, 2**31 - 1]}),
    "boundary_grad_unknown": ("boundary_grad", {"boundary_grad": "mmcv"}),
    "boundary_grad_empty": ("boundary_grad", {"boundary_grad": ""}),
}

BAD_KINDS = {
    "groups_float": ("groups", {"groups": 2.0}),
    "groups_text": ("groups", {"groups": "2"}),
    "groups_none": ("groups", {"groups": None}),
    "deformable_groups_float": ("deformable_groups", {"deformable_groups": 1.5}),
    "stride_float": ("stride", {"stride": 1.0}),
    "stride_list_of_float": ("stride", {"stride": [1.0, 2.0]}),
    "stride_text": ("stride", {"stride": "same"}),
    "padding_text": ("padding", {"padding": "same"}),
    "padding_none": ("padding", {"padding": None}),
    "dilation_none": ("dilation", {"dilation": None}),
    "boundary_grad_none": ("boundary_grad", {"boundary_grad": None}),
    "boundary_grad_number": ("boundary_grad", {"boundary_grad": 1}),
    "stride_over_32_bits": ("stride", {"stride": 2**40}),
    "padding_over_32_bits": ("padding", {"padding": [0, 2**33, 0, 0]}),
}

BAD_TYPES = {
    "x_int32": ("x", {"x": "int32"}),
    "offset_int64": ("offset", {"offset": "int64"}),
    "weight_bool": ("weight", {"weight": "bool"}),
    "bias_int8": ("bias", {"bias": "int8"}),
    "mask_uint8": ("mask", {"mask": "uint8"}),
    "offset_float64": ("offset", {"offset": "float64"}),
    "weight_float64": ("weight", {"weight": "float64"}),
    "mask_float64": ("mask", {"mask": "float64"}),
    "bias_float64": ("bias", {"bias": "float64"}),
    "only_x_float64": ("", {"x": "float64"}),
}


def _call(arrays=None, attrs=None, types=None):
    data = {n: zeros(*_SHAPES[n]) for n in NAMES}
    data.update(arrays or {})
    for name, kind in (types or {}).items():
        data[name] = data[name].astype(kind)
    tensors = [tensor(data[n]) for n in NAMES]
    return function_of({**GOOD.attrs(), **(attrs or {})})(*tensors)


def _assert_refused(argument, error, call):
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert text.startswith("deform_conv2d: "), text
    for part in (f" {argument}" if argument else "", "expected", "got"):
        assert part in text, text


def test_the_good_case_passes():
    assert _call().shape == [2, 6, _OH, _OW]


@pytest.mark.parametrize("name", BAD_SHAPES)
def test_shape(name):
    argument, arrays = BAD_SHAPES[name]
    _assert_refused(f"{argument}:", ValueError, lambda: _call(arrays))


@pytest.mark.parametrize("name", BAD_ATTRIBUTES)
def test_attribute(name):
    argument, attrs = BAD_ATTRIBUTES[name]
    _assert_refused(f"{argument}:", ValueError, lambda: _call(attrs=attrs))


@pytest.mark.parametrize("name", BAD_KINDS)
def test_kind_of_attribute(name):
    argument, attrs = BAD_KINDS[name]
    _assert_refused(f"{argument}:", (ValueError, TypeError), lambda: _call(attrs=attrs))


@pytest.mark.parametrize("name", BAD_TYPES)
def test_type_of_tensor(name):
    argument, types = BAD_TYPES[name]
    _assert_refused(f"{argument}:" if argument else "", TypeError, lambda: _call(types=types))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [np.zeros((2, 4, 5, 6), np.float32), [[1.0]], 1.0, "x"])
def test_not_a_tensor(name, value):
    tensors = {n: tensor(zeros(*_SHAPES[n])) for n in NAMES}
    tensors[name] = value
    function = function_of(GOOD.attrs())
    _assert_refused(f"{name}:", TypeError, lambda: function(*[tensors[n] for n in NAMES]))


@pytest.mark.parametrize("name", ["x", "offset", "weight"])
def test_missing_tensor(name):
    tensors = {n: tensor(zeros(*_SHAPES[n])) for n in NAMES}
    tensors[name] = None
    function = function_of(GOOD.attrs())
    _assert_refused(f"{name}:", TypeError, lambda: function(*[tensors[n] for n in NAMES]))


def test_message_shows_both_shapes():
    with pytest.raises(ValueError) as caught:
        _call({"offset": zeros(2, 24, 5, 6)})
    for part in (f"[2, 24, {_OH}, {_OW}]", "[2, 24, 5, 6]"):
        assert part in str(caught.value)


@pytest.mark.parametrize("name", ["offset_batch", "mask_channels", "weight_channels", "x_rank"])
def test_static_graph_refuses_known_shapes(name):
    """Static variables with known sizes are checked when the graph is built, in Python."""
    argument, arrays = BAD_SHAPES[name]
    data = {n: zeros(*_SHAPES[n]) for n in NAMES}
    data.update(arrays)
    with static_guard(), paddle.static.program_guard(paddle.static.Program()):
        variables = [paddle.static.data(n, list(data[n].shape), "float32") for n in NAMES]
        function = function_of(GOOD.attrs())
        _assert_refused(f"{argument}:", ValueError, lambda: function(*variables))

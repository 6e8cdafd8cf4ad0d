"""Offsets of others: each operator as its own loops say it, against ours on converted offsets."""

import numpy as np
import paddle
import pytest
from numeric import assert_close

import paddle_ops
from paddle_ops import porting

N, H, W = 2, 6, 7
STRIDE, PADDING, DILATION = (2, 1), (1, 2), (1, 2)


def sample(plane, y, x):
    """Bilinear, zeros outside."""
    total = 0.0
    for row in (int(np.floor(y)), int(np.floor(y)) + 1):
        for column in (int(np.floor(x)), int(np.floor(x)) + 1):
            if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
                total += (1 - abs(y - row)) * (1 - abs(x - column)) * plane[row, column]
    return total


def out_size(kernel):
    """(out_h, out_w) for the geometry of this file."""
    return tuple(
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip((H, W), kernel, STRIDE, PADDING, DILATION)
    )


def convert(function, *arrays, **arguments):
    """Ours, as NumPy arrays."""
    tensors = [paddle.to_tensor(array) for array in arrays]
    return [got.numpy() for got in function(*tensors, **arguments)]


def ours(x, offset, mask, weight, **arguments):
    """deform_conv2d of NumPy arrays in the geometry of this file."""
    x, offset, mask, weight = (paddle.to_tensor(array) for array in (x, offset, mask, weight))
    geometry = dict(stride=STRIDE, padding=PADDING, dilation=DILATION)
    return paddle_ops.deform_conv2d(x, offset, weight, mask=mask, **geometry, **arguments).numpy()


def uniform(*shape):
    return np.random.uniform(-1, 1, shape)


# DCNv3 and DCNv4


def dcnv3(x, offset, mask, kernel, group, scale, remove_center):
    """What their kernel does, on [N, H, W, C], [N, oh, ow, group, points, 2] and [..., points]."""
    (kh, kw), (dh, dw) = kernel, DILATION
    out = np.zeros((*offset.shape[:3], x.shape[3]))
    for n, oh, ow, c in np.ndindex(out.shape):
        g = c // (x.shape[3] // group)
        center_y = oh * STRIDE[0] - PADDING[0] + dh * (kh - 1) // 2
        center_x = ow * STRIDE[1] - PADDING[1] + dw * (kw - 1) // 2
        point = 0
        for column in range(kw):
            for row in range(kh):
                if remove_center and (row, column) == (kh // 2, kw // 2):
                    continue
                ox, oy = offset[n, oh, ow, g, point]
                y = center_y + (row * dh - dh * (kh - 1) // 2 + oy) * scale
                x_ = center_x + (column * dw - dw * (kw - 1) // 2 + ox) * scale
                out[n, oh, ow, c] += mask[n, oh, ow, g, point] * sample(x[n, :, :, c], y, x_)
                point += 1
    return out


DCN = [
    ((3, 3), 2, 1.0, False),
    ((3, 3), 2, 1.0, True),
    ((3, 2), 1, 1.0, False),
    ((2, 3), 2, 0.5, False),
    ((3, 5), 2, 1.5, True),
]


@pytest.mark.parametrize("kernel, group, scale, remove_center", DCN)
@pytest.mark.parametrize("version", [3, 4])
def test_dcnv3_and_dcnv4(version, kernel, group, scale, remove_center):
    points = kernel[0] * kernel[1] - remove_center
    x, size = uniform(N, H, W, 4), out_size(kernel)
    offset, mask = uniform(N, *size, group, points, 2), uniform(N, *size, group, points)
    expected = dcnv3(x, offset, mask, kernel, group, scale, remove_center)

    if version == 3:
        function = porting.offsets_from_dcnv3
        theirs = [offset.reshape(N, *size, -1), mask.reshape(N, *size, -1)]
    else:  # per group all offsets, then all masks; five channels that mean nothing
        function = porting.offsets_from_dcnv4
        flat = offset.reshape(N, *size, group, -1)
        joined = np.concatenate([flat, mask], axis=-1).reshape(N, *size, -1)
        theirs = [np.concatenate([joined, uniform(N, *size, 5)], axis=-1)]
    converted = convert(
        function, *theirs, kernel_size=kernel, group=group, dilation=DILATION,
        offset_scale=scale, remove_center=remove_center,
    )  # fmt: skip
    x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    got = ours(x, *converted, np.ones((4, 1, *kernel)), groups=4, deformable_groups=group)
    assert_close(got.transpose(0, 2, 3, 1), expected, "out")


def test_gradients_go_back_to_their_order():
    offset = paddle.to_tensor(uniform(1, 2, 2, 8), stop_gradient=False)
    mask = paddle.to_tensor(uniform(1, 2, 2, 4), stop_gradient=False)
    got, _ = porting.offsets_from_dcnv3(offset, mask, 2, offset_scale=3.0)
    got[:, 2].sum().backward()  # y of the tap in row 0, column 1: their third point
    expected = np.zeros((1, 2, 2, 8))
    expected[..., 2 * 2 + 1] = 3
    np.testing.assert_array_equal(offset.grad.numpy(), expected)


@pytest.mark.parametrize("function", [porting.offsets_from_dcnv3, porting.offsets_from_dcnv4])
def test_dcnv3_and_dcnv4_refuse(function):
    offset, mask = paddle.zeros([1, 2, 2, 18]), paddle.zeros([1, 2, 2, 9])
    both = (paddle.zeros([1, 2, 2, 27]),) if "v4" in function.__name__ else (offset, mask)
    argument = "offset_mask" if "v4" in function.__name__ else "offset"
    with pytest.raises(ValueError, match=f"{argument}: expected"):
        function(*both, 3, group=2)
    with pytest.raises(ValueError, match="kernel_size: expected odd"):
        function(*both, (2, 3), remove_center=True)
    with pytest.raises(ValueError, match="group: expected an integer of at least 1"):
        function(*both, 3, group=0)
    with pytest.raises(TypeError, match=f"{argument}: expected a Tensor"):
        function(*(tensor.numpy() for tensor in both), 3)


# Ascend


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_ascend(data_format):
    """All x, all y, all masks; taps in rows of the kernel, groups outermost."""
    kernel, groups = (3, 2), 2
    taps, size = groups * 6, out_size(kernel)
    x, weight, theirs = uniform(N, 4, H, W), uniform(3, 4, *kernel), uniform(N, 3 * taps, *size)
    expected = np.zeros((N, 3, *size))
    for n, o, oh, ow in np.ndindex(expected.shape):
        for c, row, column in np.ndindex(4, *kernel):
            tap = (c // 2) * 6 + row * 2 + column
            dx, dy, mask = (theirs[n, third * taps + tap, oh, ow] for third in range(3))
            y = oh * STRIDE[0] - PADDING[0] + row * DILATION[0] + dy
            x_ = ow * STRIDE[1] - PADDING[1] + column * DILATION[1] + dx
            expected[n, o, oh, ow] += weight[o, c, row, column] * mask * sample(x[n, c], y, x_)
    if data_format == "NHWC":
        theirs = np.ascontiguousarray(theirs.transpose(0, 2, 3, 1))
    converted = convert(porting.offsets_from_ascend, theirs, data_format=data_format)
    assert_close(ours(x, *converted, weight, deformable_groups=groups), expected, "out")


def test_ascend_refuses():
    for tensor, data_format, message in (
        (paddle.zeros([1, 27, 2]), "NCHW", "offset: expected 4 dimensions"),
        (paddle.zeros([1, 26, 2, 2]), "NCHW", "offset: expected a multiple of 3 channels, got 26"),
        (paddle.zeros([1, 27, 2, 2]), "HWCN", "data_format: expected 'NCHW' or 'NHWC'"),
    ):
        with pytest.raises(ValueError, match=message):
            porting.offsets_from_ascend(tensor, data_format)


# TensorFlow


def same_convolution(x, weight, offset, mask, stride):
    """TensorFlow's "SAME": output i reads from i * stride - total // 2, channels last."""
    (kh, kw), size = weight.shape[:2], offset.shape[1:3]
    total = [
        max((out - 1) * s + k - length, 0)
        for out, s, k, length in zip(size, stride, (kh, kw), x.shape[1:3])
    ]
    out = np.zeros((N, *size, weight.shape[3]))
    for n, oh, ow, o in np.ndindex(out.shape):
        for row, column, c in np.ndindex(kh, kw, x.shape[3]):
            tap = row * kw + column
            y = oh * stride[0] - total[0] // 2 + row + offset[n, oh, ow, 2 * tap]
            x_ = ow * stride[1] - total[1] // 2 + column + offset[n, oh, ow, 2 * tap + 1]
            value = mask[n, oh, ow, tap] * sample(x[n, :, :, c], y, x_)
            out[n, oh, ow, o] += weight[row, column, c, o] * value
    return out


def test_tensorflow():
    stride = (2, 3)
    size = tuple(-(-length // s) for length, s in zip((H, W), stride))
    x, weight = uniform(N, H, W, 2), uniform(3, 4, 2, 3)
    offset, mask = uniform(N, *size, 24), uniform(N, *size, 12)
    expected = same_convolution(x, weight, offset, mask, stride)
    new_offset, new_mask = convert(porting.offsets_from_tensorflow, offset, mask)
    got = paddle_ops.deform_conv2d(
        paddle.transpose(paddle.to_tensor(x), [0, 3, 1, 2]),
        paddle.to_tensor(new_offset),
        porting.weight_from_tensorflow(paddle.to_tensor(weight)),
        stride=stride,
        padding=porting.same_padding([H, W], (3, 4), stride),
        mask=paddle.to_tensor(new_mask),
    )
    assert_close(got.numpy().transpose(0, 2, 3, 1), expected, "out")


def test_tensorflow_without_mask():
    offset, mask = porting.offsets_from_tensorflow(paddle.zeros([1, 2, 3, 8]))
    assert mask is None and list(offset.shape) == [1, 8, 2, 3]


@pytest.mark.parametrize("dilation", [1, 2])
def test_same_padding_gives_tensorflows_size(dilation):
    for size, kernel, stride in np.ndindex(6, 4, 3):
        size, kernel, stride = size + 1, kernel + 1, stride + 1
        top, bottom, left, right = porting.same_padding([size, 3], [kernel, 1], stride, dilation)
        assert [left, right] == [0, 0]
        assert 0 <= bottom - top <= 1
        span = dilation * (kernel - 1) + 1
        assert (size + top + bottom - span) // stride + 1 == -(-size // stride)


def test_tensorflow_refuses():
    for arguments, message in (
        ([paddle.zeros([1, 2, 3, 7])], "offset: expected an even number of channels, got 7"),
        ([paddle.zeros([1, 2, 8])], "offset: expected 4 dimensions"),
        ([paddle.zeros([1, 2, 3, 8]), paddle.zeros([1, 2, 3, 8])], "mask: expected shape"),
    ):
        with pytest.raises(ValueError, match=message):
            porting.offsets_from_tensorflow(*arguments)
    with pytest.raises(ValueError, match="weight: expected 4 dimensions"):
        porting.weight_from_tensorflow(paddle.zeros([3, 3]))
    with pytest.raises(ValueError, match="stride: expected an integer of at least 1, got 0"):
        porting.same_padding([4, 4], 3, stride=0)

"""Shapes and data for the tests of deform_conv2d, and the one way they call it and judge it."""

import dataclasses

import numpy as np
from modes import evaluate
from numeric import as_float64, assert_close, rounded_to
from reference import deform_conv2d as reference

NAMES = ("x", "offset", "weight", "bias", "mask")


@dataclasses.dataclass(frozen=True)
class Case:
    """One configuration. Padding is top, bottom, left, right."""

    x: tuple  # N, C, H, W
    kernel: tuple  # O, kh, kw
    stride: tuple = (1, 1)
    padding: tuple = (0, 0, 0, 0)
    dilation: tuple = (1, 1)
    groups: int = 1
    deformable_groups: int = 1
    mask: bool = True
    bias: bool = True

    def attrs(self):
        """Keyword arguments of deform_conv2d."""
        return {
            "stride": list(self.stride),
            "padding": list(self.padding),
            "dilation": list(self.dilation),
            "groups": self.groups,
            "deformable_groups": self.deformable_groups,
        }

    def output_size(self):
        """(Ho, Wo)."""
        _, _, h, w = self.x
        _, kh, kw = self.kernel
        return reference.output_size(h, w, kh, kw, self.stride, self.padding, self.dilation)

    def shapes(self):
        """{name: shape}."""
        n, c, _, _ = self.x
        o, kh, kw = self.kernel
        taps = self.deformable_groups * kh * kw
        return {
            "x": self.x,
            "offset": (n, 2 * taps, *self.output_size()),
            "weight": (o, c // self.groups, kh, kw),
            "bias": (o,),
            "mask": (n, taps, *self.output_size()),
        }

    def arrays(self, dtype=np.float64, seed=0, positive=False, wide=None):
        """{name: array or None} of random data.

        Samples land between two pixels, never near a kink of the bilinear function, one pixel
        outside the image at most: a purely random offset would miss most of a small image.
        `wide` is the dtype of offset and mask where it is not `dtype`.
        """
        random = np.random.RandomState(seed)
        low = 0.0 if positive else -1.0
        shapes = self.shapes()
        data = {n: random.uniform(low, 1, shapes[n]) for n in ("x", "weight", "bias", "mask")}
        data["offset"] = self._offsets(random)
        if not self.mask:
            data["mask"] = None
        if not self.bias:
            data["bias"] = None
        for name in NAMES:
            kind = wide if wide is not None and name in ("offset", "mask") else dtype
            data[name] = None if data[name] is None else rounded_to(data[name], kind)
        return {name: data[name] for name in NAMES}

    def _offsets(self, random):
        n, channels, oh, ow = self.shapes()["offset"]
        _, kh, kw = self.kernel
        shape = (n, self.deformable_groups, kh, kw, oh, ow)
        rows = np.arange(oh)[:, None] * self.stride[0] - self.padding[0]
        columns = np.arange(ow)[None, :] * self.stride[1] - self.padding[2]
        rows = rows + (np.arange(kh) * self.dilation[0])[:, None, None, None]
        columns = columns + (np.arange(kw) * self.dilation[1])[:, None, None]
        offsets = []
        for size, base in ((self.x[2], rows), (self.x[3], columns)):
            pixel = random.randint(-2, size + 1, shape)
            offsets.append(pixel + random.uniform(0.15, 0.85, shape) - base)
        return np.stack(offsets, axis=4).reshape(n, channels, oh, ow)


# H != W, kernel, stride, padding and dilation rectangular wherever the case allows it.
CASES = {
    "rectangular": Case((2, 3, 6, 9), (4, 3, 2), (2, 1), (1, 0, 2, 1), (1, 2)),
    "one_by_one": Case((2, 5, 4, 3), (3, 1, 1)),
    "five_by_four": Case((1, 2, 7, 6), (2, 5, 4), (1, 2), (2, 2, 1, 2)),
    "stride_over_kernel": Case((2, 2, 9, 11), (3, 2, 1), (4, 3), (0, 1, 1, 0)),
    "padding_over_kernel": Case((1, 2, 3, 4), (2, 2, 3), (1, 2), (5, 4, 3, 6)),
    "dilated": Case((1, 3, 9, 8), (2, 3, 2), (1, 1), (2, 1, 0, 3), (3, 4)),
    "single_output": Case((3, 2, 3, 2), (2, 3, 2)),
    "single_pixel": Case((2, 3, 1, 1), (2, 3, 3), (1, 1), (1, 1, 1, 1)),
    "one_row": Case((1, 1, 1, 23), (1, 1, 3), (1, 2), (0, 0, 1, 0)),
    "one_column": Case((1, 2, 19, 1), (3, 3, 1), (2, 1), (1, 2, 0, 0)),
    "groups": Case((2, 4, 5, 4), (6, 3, 2), (1, 2), (1, 0, 0, 1), groups=2),
    "depthwise": Case((1, 5, 4, 6), (10, 2, 3), (1, 1), (1, 0, 1, 1), groups=5),
    "deformable_groups": Case((1, 4, 5, 6), (3, 2, 2), (2, 1), deformable_groups=2),
    "group_per_channel": Case((2, 3, 4, 5), (1, 2, 3), (1, 1), (0, 1, 1, 1), deformable_groups=3),
    "groups_2_deformable_3": Case(
        (1, 6, 5, 4), (4, 3, 2), (1, 1), (1, 1, 0, 1), groups=2, deformable_groups=3
    ),
    "groups_3_deformable_2": Case(
        (2, 6, 4, 5), (3, 2, 3), (1, 2), (0, 1, 2, 0), groups=3, deformable_groups=2
    ),
    "groups_2_deformable_4": Case(
        (1, 8, 4, 3), (2, 2, 2), (1, 1), (1, 0, 1, 0), groups=2, deformable_groups=4
    ),
    "odd_channels": Case((1, 35, 5, 7), (19, 3, 3), (1, 1), (1, 1, 1, 1)),
    "channels_over_a_panel": Case(
        (1, 80, 6, 5), (66, 3, 1), (1, 1), (1, 1, 0, 0), deformable_groups=5
    ),
    # Few outputs a group are computed in another layout, from 9 on (float32) in the usual one.
    "groups_of_13_outputs": Case(
        (2, 6, 5, 4), (26, 3, 2), (1, 2), (1, 0, 0, 1), groups=2, deformable_groups=3
    ),
    "few_outputs_of_70_channels": Case((1, 70, 5, 4), (3, 3, 3), (1, 1), (1, 1, 1, 0)),
    "groups_over_a_panel": Case(
        (1, 72, 4, 5), (72, 3, 3), (1, 2), (0, 1, 1, 1), groups=36, deformable_groups=2
    ),
}


def position_of(name):
    """Position of an input in the order of NAMES."""
    return NAMES.index(name)


def function_of(attrs):
    """deform_conv2d as a function of the tensors in the order of NAMES."""
    from paddle_ops import deform_conv2d

    def function(x, offset, weight, bias, mask):
        return deform_conv2d(x, offset, weight, bias, mask=mask, **attrs)

    return function


def expected(data, attrs, grad_out=None):
    """({name: gradient}, out) of the float64 reference; gradients empty without grad_out."""
    plain = {n: None if a is None else as_float64(a) for n, a in data.items()}
    rest = {k: v for k, v in attrs.items() if k != "boundary_grad"}
    inputs = [plain[n] for n in ("x", "offset", "weight", "bias")]
    out = reference.forward(*inputs, mask=plain["mask"], **rest)
    if grad_out is None:
        return {}, out
    return reference.backward(as_float64(grad_out), *inputs, mask=plain["mask"], **attrs), out


def cotangent(data, attrs, seed=1, positive=False):
    """A random output gradient of the dtype of x."""
    _, out = expected(data, attrs)
    low = 0.0 if positive else -1.0
    random = np.random.RandomState(seed)
    return rounded_to(random.uniform(low, 1, out.shape), data["x"].dtype)


def judge(data, attrs, wanted=NAMES, grad_out=None, mode="dygraph", unknown_dims=None):
    """Runs the operator, compares output and wanted gradients with the reference.

    Returns ({name: gradient}, out) as the operator computed them.
    """
    if grad_out is None:
        grad_out = cotangent(data, attrs)
    arrays = [data[n] for n in NAMES]
    wanted = [n for n in wanted if data[n] is not None]
    positions = [position_of(n) for n in wanted]
    outs, grads = evaluate(mode, function_of(attrs), arrays, positions, [grad_out], unknown_dims)
    right, out = expected(data, attrs, grad_out)
    assert outs[0].dtype == data["x"].dtype
    assert_close(outs[0], out, "out")
    got = {n: grads[position_of(n)] for n in wanted}
    for name in wanted:
        assert got[name] is not None, f"gradient of {name}: missing"
        assert got[name].dtype == data[name].dtype, f"gradient of {name}: {got[name].dtype}"
        assert_close(got[name], right[name], f"gradient of {name}")
    return got, outs[0]

"""Deformable convolution and all its gradients, as plainly as NumPy can say it, in float64.

Loops over channels and taps; only the batch, the output positions and the output channels are
vectorised. Shapes:

    x [N, C, H, W]   weight [O, C/groups, kh, kw]   offset [N, 2*G*K, Ho, Wo]
    mask [N, G*K, Ho, Wo] or None   bias [O] or None   out [N, O, Ho, Wo]   K = kh*kw

Tap t = g*K + i*kw + j of deformable group g reads offset channels 2t (dy) and 2t+1 (dx) and mask
channel t. Input channel c belongs to deformable group c // (C/G).
"""

import numpy as np


def pair(value):
    """An int twice, or two ints."""
    return (value, value) if np.isscalar(value) else tuple(value)


def four(padding):
    """(top, bottom, left, right) of an int, a pair (h, w) or four values."""
    if np.isscalar(padding):
        return (padding,) * 4
    if len(padding) == 2:
        return (padding[0], padding[0], padding[1], padding[1])
    return tuple(padding)


def output_size(h, w, kh, kw, stride=1, padding=0, dilation=1):
    """(Ho, Wo)."""
    (sh, sw), (dh, dw), (top, bottom, left, right) = pair(stride), pair(dilation), four(padding)
    return (
        (h + top + bottom - dh * (kh - 1) - 1) // sh + 1,
        (w + left + right - dw * (kw - 1) - 1) // sw + 1,
    )


class _Tap:
    """One tap of one deformable group: where it samples, for all images and output positions."""

    def __init__(self, y, x, height, width, boundary_grad):
        # Comparisons with NaN are false, so a NaN position does not exist either.
        self.exists = (y > -1) & (y < height) & (x > -1) & (x < width)
        if boundary_grad == "torchvision":  # the slope is also taken on the border at exactly -1
            self.has_slope = (y >= -1) & (y < height) & (x >= -1) & (x < width)
        else:
            self.has_slope = self.exists
        y, x = np.where(self.has_slope, y, 0.0), np.where(self.has_slope, x, 0.0)
        low_y, low_x = np.floor(y).astype(int), np.floor(x).astype(int)
        ly, lx = y - low_y, x - low_x
        # (row, column, weight, d weight / dy, d weight / dx) of the four neighbours
        self.corners = [
            (low_y, low_x, (1 - ly) * (1 - lx), -(1 - lx), -(1 - ly)),
            (low_y, low_x + 1, (1 - ly) * lx, -lx, 1 - ly),
            (low_y + 1, low_x, ly * (1 - lx), 1 - lx, -ly),
            (low_y + 1, low_x + 1, ly * lx, lx, ly),
        ]
        self.height, self.width = height, width
        self.image = np.arange(y.shape[0])[:, None, None] + np.zeros(y.shape, dtype=int)

    def inside(self, row, column):
        return (row >= 0) & (row < self.height) & (column >= 0) & (column < self.width)

    def read(self, plane, which):
        """Sum over the neighbours of plane [N, H, W] times weight (2), d/dy (3) or d/dx (4)."""
        total = np.zeros(self.exists.shape)
        counts = self.exists if which == 2 else self.has_slope
        for corner in self.corners:
            row, column = corner[0], corner[1]
            use = counts & self.inside(row, column)
            total[use] += corner[which][use] * plane[self.image[use], row[use], column[use]]
        return total

    def scatter(self, values, plane):
        """Adds values [N, Ho, Wo] to the neighbours in plane [N, H, W] by their weights."""
        for row, column, weight, _, _ in self.corners:
            use = self.exists & self.inside(row, column)
            target = (self.image[use], row[use], column[use])
            np.add.at(plane, target, weight[use] * values[use])


class _Geometry:
    """Sizes, and the taps of every deformable group."""

    def __init__(self, x, offset, weight, stride, padding, dilation, deformable_groups, groups):
        self.n, self.c, self.h, self.w = x.shape
        self.o, self.cg, self.kh, self.kw = weight.shape
        self.stride, self.dilation = pair(stride), pair(dilation)
        self.top, _, self.left, _ = four(padding)
        size = output_size(self.h, self.w, self.kh, self.kw, stride, padding, dilation)
        self.oh, self.ow = size
        self.deformable_groups = deformable_groups
        self.channels_per_deformable = self.c // deformable_groups
        self.outputs_per_group = self.o // groups
        assert self.cg * groups == self.c
        assert self.c % deformable_groups == 0 and self.o % groups == 0
        taps = deformable_groups * self.kh * self.kw
        assert offset.shape == (self.n, 2 * taps, self.oh, self.ow), offset.shape

    def tap(self, offset, g, i, j, boundary_grad):
        t = (g * self.kh + i) * self.kw + j
        rows = np.arange(self.oh)[:, None] * self.stride[0] - self.top + i * self.dilation[0]
        columns = np.arange(self.ow)[None, :] * self.stride[1] - self.left + j * self.dilation[1]
        y, x = rows + offset[:, 2 * t], columns + offset[:, 2 * t + 1]
        return t, _Tap(y, x, self.h, self.w, boundary_grad)

    def taps(self, offset, boundary_grad="paddle"):
        """Yields (t, i, j, tap, input channels of the tap's deformable group)."""
        for g in range(self.deformable_groups):
            first = g * self.channels_per_deformable
            channels = range(first, first + self.channels_per_deformable)
            for i in range(self.kh):
                for j in range(self.kw):
                    yield (*self.tap(offset, g, i, j, boundary_grad), i, j, channels)

    def outputs_of(self, c):
        """(slice of the output channels that read input channel c, its index in their weight)."""
        group = c // self.cg
        first = group * self.outputs_per_group
        return slice(first, first + self.outputs_per_group), c % self.cg


def _float64(*arrays):
    return [None if a is None else np.asarray(a, dtype=np.float64) for a in arrays]


def forward(
    x,
    offset,
    weight,
    bias=None,
    stride=1,
    padding=0,
    dilation=1,
    deformable_groups=1,
    groups=1,
    mask=None,
    boundary_grad="paddle",
):
    """out [N, O, Ho, Wo] in float64; boundary_grad does not matter here."""
    x, offset, weight, bias, mask = _float64(x, offset, weight, bias, mask)
    s = _Geometry(x, offset, weight, stride, padding, dilation, deformable_groups, groups)
    out = np.zeros((s.n, s.o, s.oh, s.ow))
    for t, tap, i, j, channels in s.taps(offset):
        for c in channels:
            value = tap.read(x[:, c], 2)
            if mask is not None:
                value = value * mask[:, t]
            outputs, k = s.outputs_of(c)
            out[:, outputs] += weight[outputs, k, i, j][None, :, None, None] * value[:, None]
    return out if bias is None else out + bias[None, :, None, None]


def backward(
    grad_out,
    x,
    offset,
    weight,
    bias=None,
    stride=1,
    padding=0,
    dilation=1,
    deformable_groups=1,
    groups=1,
    mask=None,
    boundary_grad="paddle",
):
    """{"x", "offset", "weight", "bias", "mask"} -> gradient in float64, None for absent inputs."""
    grad_out, x, offset, weight, bias, mask = _float64(grad_out, x, offset, weight, bias, mask)
    s = _Geometry(x, offset, weight, stride, padding, dilation, deformable_groups, groups)
    grad_x, grad_offset = np.zeros(x.shape), np.zeros(offset.shape)
    grad_weight = np.zeros(weight.shape)
    grad_mask = None if mask is None else np.zeros(mask.shape)
    for t, tap, i, j, channels in s.taps(offset, boundary_grad):
        m = 1.0 if mask is None else mask[:, t]
        for c in channels:
            outputs, k = s.outputs_of(c)
            value = tap.read(x[:, c], 2)
            grad_weight[outputs, k, i, j] += np.einsum(
                "nohw,nhw->o", grad_out[:, outputs], value * m
            )
            # gradient of (mask * sample), the unfolded column of this channel and tap
            grad_column = np.einsum("o,nohw->nhw", weight[outputs, k, i, j], grad_out[:, outputs])
            tap.scatter(grad_column * m, grad_x[:, c])
            grad_offset[:, 2 * t] += grad_column * m * tap.read(x[:, c], 3)
            grad_offset[:, 2 * t + 1] += grad_column * m * tap.read(x[:, c], 4)
            if grad_mask is not None:
                grad_mask[:, t] += grad_column * value
    return {
        "x": grad_x,
        "offset": grad_offset,
        "weight": grad_weight,
        "bias": None if bias is None else grad_out.sum(axis=(0, 2, 3)),
        "mask": grad_mask,
    }

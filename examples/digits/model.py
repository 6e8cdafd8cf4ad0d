"""A small network with deformable convolutions, and its twin with plain ones."""

from __future__ import annotations

import paddle
from paddle import nn

# paddle_ops.nn is reached through the package, later: only then are the operators compiled.
import paddle_ops

from .scenes import CLASSES

TAPS = 9
# Scene pixels between neighbouring places of the maps that the deformable layers work on.
STEP = 4
# The twin is wider, since it has no branches: 40 603 parameters beside 39 344.
DEFORMABLE_WIDTH, PLAIN_WIDTH = 32, 42


class Deformable(nn.Layer):
    """A 3x3 deformable convolution (v2) with the branch that learns where it samples."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        # Zeros start it as a plain convolution; a tenth of the others' learning rate keeps the
        # taps from running away before there are features to look for.
        start = paddle.ParamAttr(initializer=nn.initializer.Constant(0.0), learning_rate=0.1)
        self.branch = nn.Conv2D(inputs, 3 * TAPS, 3, padding=1, weight_attr=start, bias_attr=start)
        self.conv = paddle_ops.nn.DeformConv2D(inputs, outputs, 3, padding=1, bias_attr=False)

    def taps(self, x: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Return the offsets and the masks for an input; at first 0 and 1."""
        offset, mask = paddle.split(self.branch(x), [2 * TAPS, TAPS], axis=1)
        return offset, 2 * nn.functional.sigmoid(mask)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return the convolution at the taps."""
        offset, mask = self.taps(x)
        return self.conv(x, offset, mask)


class Network(nn.Layer):
    """Logits [n, CLASSES] of scenes [n, 1, height, width]: is the digit there?

    The maps have one place for every STEP x STEP pixels. A digit is there if any place sees it.
    """

    def __init__(self, deformable: bool, width: int | None = None):
        super().__init__()
        width = width or (DEFORMABLE_WIDTH if deformable else PLAIN_WIDTH)
        layer = Deformable if deformable else _plain
        self.first = nn.Sequential(
            _plain(1, width // 2, stride=2),
            *_activation(width // 2),
            _plain(width // 2, width, stride=2),
            *_activation(width),
        )
        self.second = nn.Sequential(layer(width, width), *_activation(width))
        self.third = nn.Sequential(layer(width, width), *_activation(width))
        # A low bias: most digits are absent from most places.
        few = nn.initializer.Constant(-6.0)
        self.head = nn.Conv2D(width, CLASSES, 1, bias_attr=few)

    def places(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return how much each place speaks for each digit: [n, CLASSES, h, w]."""
        return self.head(self.third(self.second(self.first(x))))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return the logits: a smooth maximum over the places."""
        return paddle.logsumexp(self.places(x), axis=[2, 3])

    def taps(self, x: paddle.Tensor) -> list[tuple[paddle.Tensor, paddle.Tensor]]:
        """Return offsets and masks of both deformable layers."""
        x = self.first(x)
        return [self.second[0].taps(x), self.third[0].taps(self.second(x))]


def count_parameters(network: nn.Layer) -> int:
    """Return how many numbers are trained."""
    return sum(p.size for p in network.parameters() if not p.stop_gradient)


def _plain(inputs: int, outputs: int, stride: int = 1) -> nn.Layer:
    return nn.Conv2D(inputs, outputs, 3, stride, padding=1, bias_attr=False)


def _activation(channels: int) -> tuple[nn.Layer, nn.Layer]:
    return nn.BatchNorm2D(channels), nn.ReLU()

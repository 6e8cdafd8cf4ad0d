"""Networks of PaddleDetection with deformable convolutions, as its configurations build them.

Nothing of PaddleDetection is changed. Weights are random, since published ones need a download.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import paddle
from paddle.vision.ops import DeformConv2D
from ppdet.modeling.architectures.yolo import YOLOv3
from ppdet.modeling.backbones.resnet import ResNet
from ppdet.modeling.heads.yolo_head import YOLOv3Head
from ppdet.modeling.losses.yolo_loss import YOLOv3Loss
from ppdet.modeling.necks.yolo_fpn import YOLOv3FPN

CLASSES = 80


class Backbone(paddle.nn.Layer):
    """A ResNet, and for want of a detector the mean square of its outputs as loss."""

    def __init__(self, depth: int, variant: str, stages: list[int]):
        super().__init__()
        self.resnet = resnet(depth, variant, stages)

    def forward(self, batch: dict[str, paddle.Tensor]) -> tuple[list[paddle.Tensor], Any]:
        """Return the outputs and the loss."""
        outputs = self.resnet(batch)
        return outputs, sum((output**2).mean() for output in outputs)


class Detector(paddle.nn.Layer):
    """PP-YOLO: ResNet-50-vd with deformable convolutions in the last stage, YOLOv3's neck and loss.

    The loss calls the cross entropy of logits, for objectness and for classes.
    """

    def __init__(self):
        super().__init__()
        backbone = resnet(50, "d", [3])
        loss = YOLOv3Loss(num_classes=CLASSES, label_smooth=True, scale_x_y=1.05)
        head = YOLOv3Head(num_classes=CLASSES, loss=loss)
        self.yolo = YOLOv3(backbone, YOLOv3FPN([512, 1024, 2048]), head, post_process=None)

    def forward(self, batch: dict[str, paddle.Tensor]) -> tuple[list[paddle.Tensor], Any]:
        """Return the parts of the loss, and the loss."""
        losses = dict(self.yolo(batch))
        return list(losses.values()), losses["loss"]


def resnet(depth: int, variant: str, stages: list[int]) -> paddle.nn.Layer:
    """Return PaddleDetection's ResNet, its sampling points off the pixels, as after training."""
    network = ResNet(
        depth=depth,
        variant=variant,
        return_idx=[1, 2, 3],
        dcn_v2_stages=stages,
        freeze_at=-1,
        freeze_norm=False,
        norm_decay=0.0,
    )
    for name, layer in network.named_sublayers():
        if name.endswith("conv_offset"):
            fan_in = np.prod(layer.weight.shape[1:])
            layer.weight.set_value(paddle.randn(layer.weight.shape) / float(fan_in) ** 0.5)
    return network


def batch(images: int, size: int) -> dict[str, paddle.Tensor]:
    """Return random images, and targets of the form that PaddleDetection's reader gives YOLOv3."""
    dtype = paddle.get_default_dtype()
    data = {"image": paddle.randn([images, 3, size, size])}
    # x, y, w, h of each box, as a share of the image
    data["gt_bbox"] = paddle.uniform([images, 50, 4], dtype, 0.1, 0.5)
    for i, stride in enumerate((32, 16, 8)):
        cells = size // stride
        target = paddle.uniform([images, 3, 6 + CLASSES, cells, cells], dtype, 0.0, 1.0)
        # Channel 5 says whether there is an object; one cell in ten has one.
        target[:, :, 5] = (target[:, :, 5] > 0.9).astype(dtype)
        target[:, :, 6:] = (target[:, :, 6:] > 0.98).astype(dtype)
        data[f"target{i}"] = target
    return data


@dataclass(frozen=True)
class Model:
    """A network by name."""

    name: str
    build: Callable[[], paddle.nn.Layer]
    size: int


MODELS = [
    Model("ResNet-50-vd, stage 5", lambda: Backbone(50, "d", [3]), 320),
    Model("ResNet-50-vd, stages 3 to 5", lambda: Backbone(50, "d", [1, 2, 3]), 320),
    Model("PP-YOLO with its loss", Detector, 320),
]


def deformable_layers(model: paddle.nn.Layer) -> int:
    """Return how many layers are deformable convolutions."""
    return sum(isinstance(layer, DeformConv2D) for layer in model.sublayers())

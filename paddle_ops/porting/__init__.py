"""What others call deformable convolution, in the layout of this package."""

from .offsets import offsets_from_ascend, offsets_from_dcnv3, offsets_from_dcnv4
from .state_dicts import load_detectron2, load_mmcv, load_torchvision
from .tensorflow import offsets_from_tensorflow, same_padding, weight_from_tensorflow

__all__ = [
    "load_detectron2",
    "load_mmcv",
    "load_torchvision",
    "offsets_from_ascend",
    "offsets_from_dcnv3",
    "offsets_from_dcnv4",
    "offsets_from_tensorflow",
    "same_padding",
    "weight_from_tensorflow",
]

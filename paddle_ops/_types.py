"""Types of the arguments that are one of a few names."""

from typing import Literal

BoundaryGrad = Literal["paddle", "torchvision"]
PosWeightForm = Literal["log1p", "softplus"]
Reduction = Literal["none", "mean", "sum"]
OffsetFormat = Literal["NCHW", "NHWC"]

"""Weights of others, loaded into this package's layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import paddle

from .. import _check
from ..nn import DeformConv2D


def load_mmcv(layer: DeformConv2D, state_dict: Mapping[str, Any], prefix: str = "") -> None:
    """Load one layer of mmcv: DeformConv2d, ModulatedDeformConv2d or one of their Packs.

    The keys are `prefix` + "weight", "bias", "conv_offset.weight" and "conv_offset.bias", as far as
    the layer has them. Where there is no "conv_offset", the older name is looked for: for the
    prefix "conv2." that is "conv2_offset". The order of channels is the same here and there.

    Args:
        layer: DeformConv2D for mmcv's DeformConv2d and ModulatedDeformConv2d; DeformConv2DPack
            (with bias_attr=False) or ModulatedDeformConv2DPack for the Packs.
        state_dict: The layer's state, or that of a model it is part of. The values are NumPy
            arrays, or tensors of PyTorch or Paddle, of any floating type.
        prefix: What the keys of the layer start with, up to and with the dot. Default "".

    Raises:
        TypeError: An argument, or a value, is of the wrong type.
        ValueError: A key is missing or too many below the prefix, or a shape does not fit. The
            layer is unchanged then.

    Example:
        >>> import numpy as np
        >>> from paddle_ops.nn import DeformConv2D
        >>> from paddle_ops.porting import load_mmcv
        >>> layer = DeformConv2D(1, 2, 1, bias_attr=False)
        >>> load_mmcv(layer, {"neck.dcn.weight": np.ones([2, 1, 1, 1])}, "neck.dcn.")
        >>> layer.weight.flatten().tolist()
        [1.0, 1.0]

    Source: mmcv.ops, _load_from_state_dict of the Packs.
    """
    op = "load_mmcv"
    names = _names(op, layer, state_dict, prefix)
    older = prefix[:-1] + "_offset."
    newer = any(key.startswith(prefix + "conv_offset.") for key in state_dict)
    keys = {name: [prefix + name] for name in names}
    for name in _offset_names(names):
        if not newer and any(key.startswith(older) for key in state_dict):
            keys[name] = [older + name.split(".")[1]]
    _load(op, layer, state_dict, keys, prefix)


def load_detectron2(layer: DeformConv2D, state_dict: Mapping[str, Any], prefix: str) -> None:
    """Load a deformable convolution of detectron2, and what predicts its offsets.

    There the two are neighbours in a DeformBottleneckBlock: for the prefix "res4.0.conv2." the keys
    are "res4.0.conv2.weight", "res4.0.conv2_offset.weight" and "res4.0.conv2_offset.bias". The keys
    "res4.0.conv2.norm.*" belong to the normalization that follows and are left alone. The order of
    channels is the same here and there, although the first third is called offset_x there.

    Args:
        layer: DeformConv2DPack or, for DEFORM_MODULATED, ModulatedDeformConv2DPack, both with
            bias_attr=False; or DeformConv2D for the convolution alone.
        state_dict: State of the model, as for :func:`load_mmcv`.
        prefix: What the keys of the convolution start with, up to and with the dot.

    Raises:
        TypeError: An argument, or a value, is of the wrong type.
        ValueError: A key is missing or too many below the prefix, or a shape does not fit. The
            layer is unchanged then.

    Example:
        >>> import numpy as np
        >>> from paddle_ops.nn import DeformConv2DPack
        >>> from paddle_ops.porting import load_detectron2
        >>> layer = DeformConv2DPack(1, 2, 1, bias_attr=False)
        >>> state = {"conv2.weight": np.ones([2, 1, 1, 1]), "conv2_offset.bias": np.ones(2)}
        >>> state["conv2_offset.weight"] = np.zeros([2, 1, 1, 1])
        >>> load_detectron2(layer, state, "conv2.")
        >>> layer.conv_offset.bias.tolist()
        [1.0, 1.0]

    Source: detectron2.modeling.backbone.resnet.DeformBottleneckBlock.
    """
    op = "load_detectron2"
    names = _names(op, layer, state_dict, prefix)
    keys = {name: [prefix + name] for name in names}
    for name in _offset_names(names):
        keys[name] = [prefix[:-1] + "_offset." + name.split(".")[1]]
    _load(op, layer, state_dict, keys, prefix, ignored=prefix + "norm.")


def load_torchvision(
    layer: DeformConv2D,
    state_dict: Mapping[str, Any],
    prefix: str = "",
    offset: str | None = None,
    mask: str | None = None,
) -> None:
    """Load torchvision.ops.DeformConv2d, and the convolutions that someone put beside it.

    torchvision's layer has `weight` and `bias`, and its offsets and masks come from outside. For a
    Pack, `offset` names the convolution they come from; if offsets and masks have one each, `mask`
    names the second. Both must have the geometry of the deformable one. What some code makes of the
    mask, such as 2 * sigmoid(mask), is not in a state dict: the Pack takes sigmoid(mask).

    Args:
        layer: DeformConv2D, or a Pack with `offset`.
        state_dict: State of the module, as for :func:`load_mmcv`.
        prefix: What the keys of the layer start with, up to and with the dot. Default "".
        offset: What the keys of the convolution that predicts offsets (and masks) start with, up to
            and with the dot; None (default) for a DeformConv2D.
        mask: The same of one that predicts the masks; None (default) if there is none.

    Raises:
        TypeError: An argument, or a value, is of the wrong type.
        ValueError: A key is missing or too many below a prefix, a shape does not fit, or `offset`
            is missing for a Pack or too much for a DeformConv2D. The layer is unchanged then.

    Example:
        >>> import numpy as np
        >>> from paddle_ops.nn import ModulatedDeformConv2DPack
        >>> from paddle_ops.porting import load_torchvision
        >>> layer = ModulatedDeformConv2DPack(1, 2, 1, bias_attr=False)
        >>> state = {"dcn.weight": np.ones([2, 1, 1, 1])}
        >>> state.update({"where.weight": np.zeros([2, 1, 1, 1]), "where.bias": np.ones(2)})
        >>> state.update({"how.weight": np.zeros([1, 1, 1, 1]), "how.bias": np.zeros(1)})
        >>> load_torchvision(layer, state, "dcn.", offset="where.", mask="how.")
        >>> layer.conv_offset.bias.tolist()
        [1.0, 1.0, 0.0]

    Source: torchvision.ops.DeformConv2d.
    """
    op = "load_torchvision"
    names = _names(op, layer, state_dict, prefix)
    beside = [_string(op, n, v) for n, v in (("offset", offset), ("mask", mask)) if v is not None]
    predicts = bool(_offset_names(names))
    if predicts != (offset is not None):
        expected = "the prefix of a convolution" if predicts else "None for a layer that has none"
        _check.fail(op, "offset", expected, offset)
    keys = {name: [prefix + name] for name in names}
    for name in _offset_names(names):
        keys[name] = [start + name.split(".")[1] for start in beside]
    _load(op, layer, state_dict, keys, prefix, *beside)


def _names(op: str, layer: Any, state_dict: Any, prefix: Any) -> list[str]:
    """Check the arguments; return the names of the layer's parameters."""
    if not isinstance(layer, (DeformConv2D, paddle.vision.ops.DeformConv2D)):
        _check.fail(op, "layer", "a DeformConv2D", type(layer).__name__, TypeError)
    if not isinstance(state_dict, Mapping):
        _check.fail(op, "state_dict", "a dictionary", type(state_dict).__name__, TypeError)
    _string(op, "prefix", prefix)
    return [name for name, _ in layer.named_parameters()]


def _offset_names(names: list[str]) -> list[str]:
    """Return those of the convolution that predicts the offsets; none for a layer without it."""
    return [name for name in names if name.startswith("conv_offset.")]


def _string(op: str, argument: str, value: Any) -> str:
    """Return a prefix, which ends with a dot unless it is empty."""
    if not isinstance(value, str):
        _check.fail(op, argument, "a string", type(value).__name__, TypeError)
    if value and not value.endswith("."):
        _check.fail(op, argument, "a prefix that ends with a dot", repr(value))
    return value


def _load(
    op: str,
    layer: DeformConv2D,
    state_dict: Mapping[str, Any],
    keys: dict[str, list[str]],
    *prefixes: str,
    ignored: str | None = None,
) -> None:
    """Set each parameter to the values of its keys, one after the other along the first axis.

    Nothing below the prefixes may be left over, except what starts with `ignored`.
    """
    wanted = [key for several in keys.values() for key in several]
    expected = f"the keys {', '.join(wanted)}"
    missing = [key for key in wanted if key not in state_dict]
    if missing:
        _check.fail(op, "state_dict", expected, f"none of {', '.join(missing)}")
    left_over = [
        key
        for key in state_dict
        if key.startswith(prefixes) and key not in wanted
        if ignored is None or not key.startswith(ignored)
    ]
    if left_over:
        _check.fail(op, "state_dict", f"only {expected}", f"also {', '.join(left_over)}")
    values = {}
    for name, parameter in layer.named_parameters():
        parts = [_tensor(op, key, state_dict[key]).astype(parameter.dtype) for key in keys[name]]
        shapes, expected = [list(part.shape) for part in parts], list(parameter.shape)
        joined = sum(shape[0] for shape in shapes if shape)
        if any([joined, *shape[1:]] != expected for shape in shapes):
            got = " and ".join(map(str, shapes))
            _check.fail(op, " and ".join(keys[name]), f"shape {expected}", got)
        values[name] = parts[0] if len(parts) == 1 else paddle.concat(parts)
    for name, parameter in layer.named_parameters():
        parameter.set_value(values[name])


def _tensor(op: str, key: str, value: Any) -> paddle.Tensor:
    """Return an array, or a tensor of PyTorch or Paddle, as Paddle's."""
    if isinstance(value, paddle.Tensor):
        return value
    if hasattr(value, "detach"):  # NumPy has no bfloat16, float64 holds every other type
        value = value.detach().cpu().double().numpy()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
        _check.fail(op, key, "an array or a tensor of numbers", type(value).__name__, TypeError)
    return paddle.to_tensor(value)

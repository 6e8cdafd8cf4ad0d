"""Loads the golden vectors; README.md in this folder says where they come from."""

import json
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent
TENSORS = ("x", "offset", "weight", "bias", "mask")


def _unpack(packed):
    if packed is None:
        return None
    if "data" in packed:
        return np.array(packed["data"], dtype=np.float64).reshape(packed["shape"])
    array = np.full(int(np.prod(packed["shape"])), packed["fill"], dtype=np.float64)
    for index, value in packed.get("except", {}).items():
        array[int(index)] = value
    return array.reshape(packed["shape"])


def published():
    """{id: case}; a case has the TENSORS, "attrs", "published_out" and maybe "float64"."""
    cases = {}
    for entry in json.loads((FOLDER / "deform_conv2d.json").read_text()):
        case = {name: _unpack(entry.get(name)) for name in (*TENSORS, "published_out")}
        case["attrs"] = entry["attrs"]
        case["float64"] = {k: _unpack(v) for k, v in entry.get("float64", {}).items()}
        cases[entry["id"]] = case
    return cases


def torchvision():
    """[case]: the TENSORS, "attrs", "grad_out", "out" and "grad_<tensor>", random data."""
    archive = np.load(FOLDER / "deform_conv2d_torchvision.npz")
    cases = []
    for number in sorted({name.split("/")[0] for name in archive.files}):
        case = {n.split("/")[1]: archive[n] for n in archive.files if n.startswith(number + "/")}
        sh, sw, ph, pw, dh, dw, groups, deformable_groups = (int(v) for v in case.pop("params"))
        case["attrs"] = {
            "stride": [sh, sw],
            "padding": [ph, ph, pw, pw],
            "dilation": [dh, dw],
            "groups": groups,
            "deformable_groups": deformable_groups,
        }
        for name in TENSORS:
            case.setdefault(name, None)
        cases.append(case)
    return cases

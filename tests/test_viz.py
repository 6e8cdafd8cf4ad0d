"""paddle_ops.viz: what is drawn is what deform_conv2d computes."""

import numpy as np
import paddle
import pytest
from deform_cases import Case, function_of
from matplotlib.figure import Figure

from paddle_ops import viz
from tools import pictures

CASE = Case((2, 4, 9, 12), (3, 3, 2), (2, 1), (2, 1, 0, 3), (1, 2), deformable_groups=2, bias=False)


def drawn(case, data, place, group=0, index=0, **changes):
    attrs = case.attrs()
    sizes = {name: attrs[name] for name in ("stride", "padding", "dilation")}
    ax = Figure().subplots()
    options = {"kernel_size": case.kernel[1:], "deformable_group": group, "index": index, **sizes}
    offset, mask = paddle.to_tensor(data["offset"]), paddle.to_tensor(data["mask"])
    image = data["x"][index, 0]
    return ax, viz.sampling_locations(ax, image, offset, place, mask, **{**options, **changes})


@pytest.mark.parametrize("group, index, place", [(0, 0, (0, 0)), (1, 1, (3, 5)), (1, 0, (2, 9))])
def test_the_taps_are_where_deform_conv2d_samples(group, index, place):
    """On an image of coordinates a bilinear sample inside is its own position."""
    data = CASE.arrays(np.float32)
    y, x = np.mgrid[: CASE.x[2], : CASE.x[3]].astype(np.float32)
    data["x"][...] = 0
    data["x"][:, 2 * group], data["x"][:, 2 * group + 1] = y, x
    _, taps = drawn(CASE, data, place, group, index)
    size = np.array(CASE.x[2:])
    inside = [t for t, tap in enumerate(taps) if np.all((tap >= 0) & (tap <= size - 1))]
    assert inside
    for tap in inside:
        data["weight"][...] = 0
        data["weight"][0, 2 * group, tap // 2, tap % 2] = 1
        data["weight"][1, 2 * group + 1, tap // 2, tap % 2] = 1
        tensors = [paddle.to_tensor(data[n]) for n in ("x", "offset", "weight")]
        out = function_of(CASE.attrs())(*tensors, None, None).numpy()
        np.testing.assert_allclose(out[index, :2, place[0], place[1]], taps[tap], rtol=1e-5)


def test_dots_and_circles():
    data = CASE.arrays(np.float32)
    ax, taps = drawn(CASE, data, (1, 3), group=1)
    plain, filled = ax.collections
    np.testing.assert_allclose(filled.get_offsets(), taps[:, ::-1])
    np.testing.assert_allclose(filled.get_array(), data["mask"][0, 6:, 1, 3])
    shift = data["offset"][0, 12:, 1, 3].reshape(-1, 2)
    np.testing.assert_allclose(plain.get_offsets(), (taps - shift)[:, ::-1], atol=1e-5)


@pytest.mark.parametrize(
    "change, argument",
    [
        ({"kernel_size": 5}, "offset"),
        ({"deformable_group": 2}, "offset"),
        ({"index": -1}, "offset"),
        ({"stride": 0}, "stride"),
    ],
)
def test_what_does_not_fit_is_refused(change, argument):
    with pytest.raises(ValueError, match=f"viz.sampling_locations: {argument}: expected"):
        drawn(CASE, CASE.arrays(np.float32), (0, 0), **change)


def test_the_forms_of_pos_weight():
    figure = Figure()
    viz.pos_weight_forms(figure, pos_weight=2.0, label=0.0)
    losses, gradients = figure.axes
    x, plain = losses.lines[0].get_data()
    np.testing.assert_allclose(plain, np.log1p(np.exp(x)), rtol=1e-5)
    assert [len(ax.lines) for ax in figure.axes] == [3, 3]
    _, slope = gradients.lines[2].get_data()
    np.testing.assert_allclose(slope, 1 - 2 / (1 + np.exp(x)), atol=1e-6)


def test_the_pictures_of_the_documents(tmp_path):
    for draw in (pictures.draw_sampling, pictures.draw_forms):
        path = tmp_path / "picture.png"
        draw(path)
        assert path.stat().st_size > 10_000

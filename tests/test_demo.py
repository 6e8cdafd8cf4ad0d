"""The pieces of `make demo`, each for a moment; the demo itself runs in minutes."""

import numpy as np
import paddle
import pytest

for _library in ("sklearn", "matplotlib", "tqdm"):
    pytest.importorskip(_library)

from examples.digits import __main__ as story  # noqa: E402
from examples.digits import model, picture, scenes, train  # noqa: E402


@pytest.fixture(scope="module")
def few():
    """Sixteen scenes."""
    return scenes.compose(scenes.load(0)[0], 16, np.random.default_rng(0))


@pytest.fixture
def network(request):
    paddle.seed(0)
    return model.Network(request.param, width=8)


both_networks = pytest.mark.parametrize(
    "network", [True, False], indirect=True, ids=["deformable", "plain"]
)


def test_scenes_depend_on_the_seed_alone(few):
    digits = scenes.load(0)[0]
    again = scenes.compose(digits, 16, np.random.default_rng(0))
    other = scenes.compose(digits, 16, np.random.default_rng(1))
    assert np.array_equal(few.images, again.images) and np.array_equal(few.labels, again.labels)
    assert not np.array_equal(few.images, other.images)


def test_scenes_have_the_announced_form(few):
    assert few.images.shape == (16, 1, scenes.HEIGHT, scenes.WIDTH)
    assert few.images.dtype == np.uint8 and few.images.max() > 100
    assert few.labels.shape == (16, scenes.CLASSES) and few.labels.dtype == np.float32
    assert set(np.unique(few.labels)) == {0, 1}
    assert set(few.labels.sum(axis=1)) <= {1, 2, 3, 4}


@pytest.mark.parametrize("digit", [0, 7])
def test_labels_name_what_is_drawn(digit):
    digits = scenes.load(0)[0]
    chosen = digits.classes == digit
    only = scenes.Digits(digits.images[chosen], digits.classes[chosen])
    result = scenes.compose(only, 4, np.random.default_rng(0))
    assert np.array_equal(result.labels, np.tile(np.eye(10, dtype="float32")[digit], (4, 1)))
    assert (result.images.reshape(4, -1).max(axis=1) > 0).all()


def test_training_and_test_scenes_share_no_digit():
    known, unknown = scenes.load(0)
    assert len(known.images) + len(unknown.images) == 1797
    scans = [{image.tobytes() for image in digits.images} for digits in (known, unknown)]
    assert not scans[0] & scans[1]


def test_the_twin_has_as_many_parameters():
    deformable, plain = (model.count_parameters(model.Network(d)) for d in (True, False))
    assert deformable <= plain <= 1.05 * deformable


@both_networks
def test_networks_give_a_logit_for_each_digit(network, few):
    x = train.as_input(few.images)
    assert network(x).shape == [16, 10]
    height, width = scenes.HEIGHT // model.STEP, scenes.WIDTH // model.STEP
    assert network.places(x).shape == [16, 10, height, width]


def test_a_deformable_layer_starts_as_a_plain_one():
    layer = model.Deformable(3, 4)
    x = paddle.randn([2, 3, 6, 7])
    expected = paddle.nn.functional.conv2d(x, layer.conv.weight, padding=1)
    np.testing.assert_allclose(layer(x).numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


@both_networks
def test_training_lowers_the_loss(network, few):
    often = scenes.Scenes(np.tile(few.images, (12, 1, 1, 1)), np.tile(few.labels, (12, 1)))
    losses = train.train(network, often, "test")
    assert len(losses) == 12 and losses[-1] < losses[0]


@pytest.mark.parametrize("network", [True], indirect=True)
def test_training_moves_the_taps(network, few):
    train.train(network, few, "test")
    for offset, mask in network.taps(train.as_input(few.images)):
        assert float(offset.abs().max()) > 0
        assert float((mask - 1).abs().max()) > 0


def _scores(precision):
    return train.Scores(0.8, 0.1, np.full(10, precision))


def test_the_picture_is_written(few, tmp_path):
    paddle.seed(0)
    names = ("deformable", "plain twin")
    path = tmp_path / "new" / "digits.png"
    picture.draw(
        path,
        model.Network(True, width=8),
        few,
        {name: [0.7, 0.6, 0.5] for name in names},
        {name: _scores(0.9) for name in names},
        "heading",
    )
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("losses", "precision", "code"),
    [([0.7, 0.3], 0.9, 0), ([0.7, 0.7], 0.9, 1), ([0.7, 0.3], 0.26, 1), ([0.7, np.nan], 0.9, 1)],
    ids=["learned", "loss did not fall", "no better than chance", "diverged"],
)
def test_the_exit_code_tells_whether_it_learned(losses, precision, code, few):
    assert story.verdict({"a": losses}, {"a": _scores(precision)}, few) == code

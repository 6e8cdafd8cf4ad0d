"""examples.detection: PaddleDetection's networks compute the same on these operators, faster."""

import paddle
import pytest

import paddle_ops

pytest.importorskip("ppdet", reason="PaddleDetection is not installed: make drop-in installs it")


def test_gradients_and_outputs_of_a_backbone_agree():
    from examples.detection import __main__ as program
    from examples.detection import models

    model = models.Model("small", lambda: models.Backbone(18, "d", [1, 2, 3]), 64)
    assert models.deformable_layers(model.build()) == 6
    outputs, gradients = program.compare(model, 2, model.size)
    assert 0 < outputs < program.AGREEMENT  # 0 would mean that nothing was patched
    assert 0 < gradients < program.AGREEMENT


def test_a_wrong_operator_would_show(monkeypatch):
    """The comparison is worth something: one offset channel exchanged for another, and it fails."""
    from examples.detection import __main__ as program
    from examples.detection import models
    from paddle_ops import functional

    right = functional.deform_conv2d

    def wrong(x, offset, *rest):
        return right(x, offset[:, ::-1], *rest)

    monkeypatch.setattr(functional, "deform_conv2d", wrong)
    model = models.Model("small", lambda: models.Backbone(18, "d", [3]), 64)
    assert min(program.compare(model, 2, model.size)) > program.AGREEMENT


def test_a_patched_detector_learns():
    from examples.detection import models

    paddle.seed(0)
    detector, batch = models.Detector(), models.batch(1, 64)
    optimizer = paddle.optimizer.Momentum(1e-3, parameters=detector.parameters())
    losses = []
    with paddle_ops.patch_paddle():
        for _ in range(3):
            _, loss = detector(batch)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(loss.item())
    assert losses[-1] < losses[0]

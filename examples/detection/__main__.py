"""Compare, time, print the table."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import warnings

import numpy as np
import paddle
from tabulate import tabulate
from tqdm import tqdm

import paddle_ops

from . import models

AGREEMENT = 1e-5


def main() -> int:
    """Print the table; return the exit code."""
    arguments = _parse()
    warnings.filterwarnings("ignore", message="When training, we now always")
    # Paddle's own operators would take one thread.
    paddle.base.core.set_num_threads(arguments.threads)
    paddle_ops.set_num_threads(arguments.threads)
    rows, agree = [], True
    for model in tqdm(models.MODELS, disable=None):
        size = arguments.size or model.size
        outputs, gradients = compare(model, arguments.images, size)
        seconds = timings(model, arguments.images, size, arguments.repeat)
        agree &= outputs <= AGREEMENT and gradients <= AGREEMENT  # NaN is not
        shape = f"{arguments.images}x3x{size}x{size}"
        layers = models.deformable_layers(model.build())
        before, after = np.median(seconds, axis=0)
        faster = np.median(seconds[:, 0] / seconds[:, 1])
        rows.append([model.name, shape, layers, outputs, gradients, before, after, faster])
    headers = [
        "network", "images", "deformable layers", "outputs differ by", "gradients differ by",
        "Paddle, s", "patched, s", "times as fast",
    ]  # fmt: skip
    formats = ("", "", "", ".1e", ".1e", ".2f", ".2f", ".2f")
    print(tabulate(rows, headers, tablefmt="github", floatfmt=formats))
    return 0 if agree else 1


def compare(model: models.Model, images: int, size: int) -> tuple[float, float]:
    """Return how far outputs and gradients of a step in float64 differ, in units of their norm."""
    with default_dtype("float64"):
        results = []
        for context in (contextlib.nullcontext, paddle_ops.patch_paddle):
            paddle.seed(0)
            network, batch = model.build(), models.batch(images, size)
            with context():
                outputs, loss = network(batch)
                loss.backward()
            gradients = [p.grad for p in network.parameters() if p.grad is not None]
            results.append((outputs, gradients))
    (outputs, gradients), (patched_outputs, patched_gradients) = results
    return difference(patched_outputs, outputs), difference(patched_gradients, gradients)


def difference(got: list[paddle.Tensor], expected: list[paddle.Tensor]) -> float:
    """Return the largest ||got - expected|| / ||expected||; NaN if there is one anywhere."""
    assert len(got) == len(expected) > 0
    norms = [
        np.linalg.norm(a.numpy() - b.numpy()) / np.linalg.norm(b.numpy())
        for a, b in zip(got, expected)
    ]
    return float(np.max(norms))


def timings(model: models.Model, images: int, size: int, repeat: int) -> np.ndarray:
    """Return the seconds of training steps in float32, [repeat, 2]: Paddle's own, and patched."""
    paddle.seed(0)
    network, batch = model.build(), models.batch(images, size)
    # A step so small that the sampling points stay where they are.
    optimizer = paddle.optimizer.Momentum(1e-9, parameters=network.parameters())

    def step() -> float:
        start = time.perf_counter()
        _, loss = network(batch)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return time.perf_counter() - start

    def patched() -> float:
        with paddle_ops.patch_paddle():
            return step()

    seconds = np.array([[step(), patched()] for _ in range(repeat + 1)])
    return seconds[1:]  # the first round warms up


@contextlib.contextmanager
def default_dtype(name: str):
    """Make layers and random tensors of another type inside."""
    usual = paddle.get_default_dtype()
    paddle.set_default_dtype(name)
    try:
        yield
    finally:
        paddle.set_default_dtype(usual)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.detection", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--images", type=int, default=2, help="in a batch")
    parser.add_argument("--size", type=int, help="height and width of the images")
    parser.add_argument("--repeat", type=int, default=7, help="training steps that are timed")
    parser.add_argument("--threads", type=int, default=2, help="of both")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

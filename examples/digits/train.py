"""Training and scoring, the same for both networks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import paddle
from sklearn.metrics import average_precision_score
from tqdm import tqdm

import paddle_ops

from .model import Network
from .scenes import Scenes

BATCH = 16
_RATE = 5e-3


class Scores(NamedTuple):
    """What a network is worth on test scenes, each from 0 to 1."""

    labels: float  # labels that are right
    scenes: float  # scenes with all labels right
    precision: np.ndarray  # average precision of each digit


def as_input(images: np.ndarray) -> paddle.Tensor:
    """Return images as a network takes them."""
    return paddle.to_tensor(images.astype("float32") / 255)


def train(network: Network, scenes: Scenes, title: str) -> list[float]:
    """Show a network each scene once, in batches; return the loss of each batch."""
    steps = len(scenes.images) // BATCH
    rate = paddle.optimizer.lr.OneCycleLR(_RATE, total_steps=steps)
    optimizer = paddle.optimizer.AdamW(rate, parameters=network.parameters(), weight_decay=1e-4)
    criterion = paddle_ops.nn.BCEWithLogitsLoss()
    losses = []
    network.train()
    with tqdm(total=steps * BATCH, desc=title, unit="scene", mininterval=1) as bar:
        for start in range(0, steps * BATCH, BATCH):
            logits = network(as_input(scenes.images[start : start + BATCH]))
            loss = criterion(logits, paddle.to_tensor(scenes.labels[start : start + BATCH]))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            rate.step()
            losses.append(float(loss))
            bar.update(BATCH)
            bar.set_postfix(loss=f"{np.mean(losses[-50:]):.3f}", refresh=False)
    return losses


@paddle.no_grad()
def predict(network: Network, images: np.ndarray) -> np.ndarray:
    """Return the logits of any number of images."""
    network.eval()
    starts = range(0, len(images), 100)
    return np.concatenate([network(as_input(images[i : i + 100])).numpy() for i in starts])


def score(network: Network, scenes: Scenes) -> Scores:
    """Compare what a network says with what the scenes contain."""
    logits = predict(network, scenes.images)
    right = (logits > 0) == (scenes.labels > 0)
    precision = average_precision_score(scenes.labels, logits, average=None)
    return Scores(right.mean(), right.all(axis=1).mean(), precision)

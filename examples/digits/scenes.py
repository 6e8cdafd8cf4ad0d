"""Scenes of several handwritten digits: placed, scaled, rotated and sheared at random."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HEIGHT, WIDTH = 40, 56
CLASSES = 10
# Pixels of a scanned digit, both ways.
_SIDE = 8


class Digits(NamedTuple):
    """Scanned digits: images [n, 8, 8] from 0 to 1, and which digit each one is, [n]."""

    images: np.ndarray
    classes: np.ndarray


class Scenes(NamedTuple):
    """Images [n, 1, HEIGHT, WIDTH] from 0 to 255; labels [n, CLASSES], 1 for the digits in them."""

    images: np.ndarray
    labels: np.ndarray


def load(seed: int) -> tuple[Digits, Digits]:
    """Return the digits for training scenes and those for test scenes: two disjoint sets."""
    images, classes = load_digits(return_X_y=True)
    images = (images / 16).astype("float32").reshape(-1, _SIDE, _SIDE)
    train, test = train_test_split(
        np.arange(len(images)), test_size=1 / 3, stratify=classes, random_state=seed
    )
    return Digits(images[train], classes[train]), Digits(images[test], classes[test])


def compose(digits: Digits, count: int, rng: np.random.Generator) -> Scenes:
    """Return new scenes of two to four digits; the same generator state gives the same scenes."""
    images = np.zeros((count, 1, HEIGHT, WIDTH), "uint8")
    labels = np.zeros((count, CLASSES), "float32")
    for image, label in zip(images, labels):
        canvas = np.zeros((HEIGHT, WIDTH), "float32")
        placed: list[tuple[np.ndarray, float]] = []
        for pick in rng.integers(len(digits.images), size=rng.integers(2, 5)):
            matrix, radius = _distortion(rng)
            centre = _free_place(placed, radius, rng)
            if centre is None:
                continue
            placed.append((centre, radius))
            _draw(canvas, digits.images[pick] * rng.uniform(0.6, 1.0), matrix, centre)
            label[digits.classes[pick]] = 1
        image[0] = np.rint(canvas * 255)
    return Scenes(images, labels)


def _distortion(rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Return a random map from a digit's (row, column) to the scene's, and the digit's radius."""
    scale = np.exp(rng.uniform(np.log(1.2), np.log(3.0)))
    angle = np.deg2rad(rng.uniform(-60, 60))
    rotation = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    shear = np.array([[1.0, 0.0], [rng.uniform(-0.5, 0.5), 1.0]])
    return scale * rotation @ shear, scale * _SIDE / 2


def _free_place(
    placed: list[tuple[np.ndarray, float]], radius: float, rng: np.random.Generator
) -> np.ndarray | None:
    """Return a centre that keeps clear of the digits placed before, or None if that is hard."""
    for _ in range(30):
        centre = rng.uniform([radius, radius], [HEIGHT - 1 - radius, WIDTH - 1 - radius])
        if all(np.hypot(*(centre - other)) > 0.9 * (radius + far) for other, far in placed):
            return centre
    return None


def _draw(canvas: np.ndarray, digit: np.ndarray, matrix: np.ndarray, centre: np.ndarray) -> None:
    """Draw one digit into the canvas; where digits overlap, the brighter one shows."""
    reach = np.abs(matrix).sum(axis=1) * (_SIDE + 1) / 2
    low = np.maximum(np.floor(centre - reach), 0).astype(int)
    high = np.minimum(np.ceil(centre + reach) + 1, canvas.shape).astype(int)
    window = canvas[low[0] : high[0], low[1] : high[1]]
    back = np.linalg.inv(matrix)
    origin = back @ (low - centre) + (_SIDE - 1) / 2
    # "grid-constant" fades out beyond the scan's edge, where "constant" would cut strokes off.
    drawn = ndimage.affine_transform(
        digit, back, origin, window.shape, order=1, mode="grid-constant"
    )
    np.maximum(window, drawn, out=window)

"""Drawings with several things in each, from a seed: 16 labels, 4,000 images, no download.

A drawing is of one of six hidden kinds (coast, street, meadow, mountains, town at night, lake) that
decide what is likely to be in it; some are more frequent than others, and none is a label.
Everything can be anywhere now and then, but sun and moon are never together. What belongs together
stands together: a boat sails on the wave, fish swim below it, flowers grow under the tree, a star
is beside the moon. Things differ in shape, size, pen and colour from image to image, hide each
other, and stand among strokes that mean nothing. 3,000 images are for training, 1,000 for the test.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hsearch.data.drawing import Floats, Ink, NDArray8, blur, coverage, paper, pixels, png
from hsearch.data.pictograms import NAMES, write
from hsearch.data.records import Record

SPLITS = {"train": 3000, "test": 1000}
SIZE = 64
SEED = 2021

KINDS: dict[str, dict[str, float]] = {
    "coast": {"wave": 0.95, "boat": 0.7, "fish": 0.5, "bird": 0.5, "sun": 0.6, "cloud": 0.3},
    "street": {"house": 0.8, "car": 0.85, "lamp": 0.5, "person": 0.6, "tree": 0.3, "sun": 0.2},
    "meadow": {"flower": 0.85, "tree": 0.7, "sun": 0.6, "person": 0.4, "bird": 0.3, "cloud": 0.4},
    "mountains": {"mountain": 0.95, "fir": 0.8, "cloud": 0.6, "bird": 0.2, "star": 0.2},
    "night": {"moon": 0.85, "star": 0.85, "lamp": 0.7, "house": 0.6, "car": 0.3},
    "lake": {"fish": 0.7, "boat": 0.4, "wave": 0.6, "fir": 0.6, "mountain": 0.4, "moon": 0.3},
}
"""How likely each kind of drawing has a thing, if not by chance."""

SHARES = (0.25, 0.25, 0.2, 0.15, 0.1, 0.05)
"""How frequent the kinds are."""

CHANCE = 0.03
"""How likely every other thing is in a drawing."""

_SKY, _GROUND = (-0.8, -0.45), (0.15, 0.6)
_BANDS = {
    **dict.fromkeys(NAMES, _GROUND),
    **dict.fromkeys(("sun", "moon", "star", "cloud"), _SKY),
    "bird": (-0.7, 0.0),
    "mountain": (-0.3, 0.1),
    "wave": (0.2, 0.5),
    "fish": (0.3, 0.75),
}
"""Between which heights things stand."""

_BESIDE = {
    "boat": ("wave", (0.0, -0.3)),
    "fish": ("wave", (0.0, 0.35)),
    "flower": ("tree", (0.3, 0.2)),
    "star": ("moon", (0.35, -0.1)),
    "person": ("car", (0.4, 0.0)),
}
"""Next to what, and where from there, a thing stands if both are in the drawing."""

_BLOCK = 250


def records() -> Iterator[Record]:
    """Yields all images as PNG bytes, those for training first."""
    rng = np.random.default_rng(SEED)
    hues = rng.normal(0, 1, (len(NAMES), 3))
    hues = 0.08 * hues / np.linalg.norm(hues, axis=1, keepdims=True)
    for split, count in SPLITS.items():
        for start in range(0, count, _BLOCK):
            there = draw_labels(rng, min(_BLOCK, count - start))
            for i, image in enumerate(_draw(rng, there, hues)):
                tags = tuple(NAMES[label] for label in np.flatnonzero(there[i]))
                name = f"{split}-{start + i:04d}"
                yield Record(name, png(image), labels=(), split=split, tags=tags)


def draw_labels(rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
    """Returns (B, T): which things are in each drawing, in the order of `NAMES`; never none."""
    chances = np.array([[of.get(name, CHANCE) for name in NAMES] for of in KINDS.values()])
    kinds = rng.choice(len(KINDS), count, p=SHARES)
    there: NDArray[np.bool_] = rng.random((count, len(NAMES))) < chances[kinds]
    empty = ~there.any(axis=1)
    there[empty, chances[kinds[empty]].argmax(axis=1)] = True
    sun, moon = NAMES.index("sun"), NAMES.index("moon")
    both = there[:, sun] & there[:, moon]
    likelier = np.where(chances[kinds, sun] >= chances[kinds, moon], sun, moon)
    there[both, sun + moon - likelier[both]] = False
    return there


def _draw(
    rng: np.random.Generator, there: NDArray[np.bool_], hues: NDArray[np.float64]
) -> NDArray8:
    """Returns (B, S, S, 3): the drawings of what is there."""
    count = len(there)
    light = rng.uniform(0.6, 0.95, (count, 1, 1, 1))
    tint = rng.normal(0, 0.06, (count, 1, 1, 3))
    shade = 0.6 * paper(rng, count, SIZE, 0.03)[..., None]
    images = (light + tint + shade).astype(np.float32)
    dark = rng.uniform(0.35, 0.6, (count, 1, 1, 1))
    _put(images, np.arange(count), _clutter(rng, count), light - dark)
    places, sizes = _places(rng, there)
    for label, name in enumerate(NAMES):
        rows = np.flatnonzero(there[:, label])
        ink = write(rng, name, places[rows, label], sizes[rows, label])
        color = light[rows] - dark[rows] + hues[label]
        _put(images, rows, ink, color + rng.normal(0, 0.1, (len(rows), 1, 1, 3)))
    return pixels(blur(images, rng.uniform(0, 0.7, count).astype(np.float32)))


def _places(rng: np.random.Generator, there: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Returns (B, T, 2) where things stand and (B, T) their sizes.

    From left to right they stand in random order at about equal distances.
    """
    keys = np.where(there, rng.random(there.shape), 2.0)
    rank, number = keys.argsort(axis=1).argsort(axis=1), there.sum(axis=1, keepdims=True)
    x = 1.5 * ((rank + 0.5) / number - 0.5) + rng.normal(0, 0.08, there.shape)
    y = np.stack([rng.uniform(*_BANDS[name], len(there)) for name in NAMES], axis=1)
    places = np.stack([x, y], axis=-1)
    for name, (other, shift) in _BESIDE.items():
        own, its = NAMES.index(name), NAMES.index(other)
        rows = there[:, own] & there[:, its]
        jitter = rng.normal(0, 0.05, (len(there), 2))
        places[rows, own] = (places[:, its] + shift + jitter)[rows]
    sizes = rng.uniform(0.19, 0.33, there.shape)
    return places.clip(-0.85, 0.85).astype(np.float32), sizes.astype(np.float32)


def _clutter(rng: np.random.Generator, count: int) -> Ink:
    """Two short thin strokes in every drawing that belong to nothing."""
    start = rng.uniform(-1, 1, (count, 2, 2))
    end = start + rng.normal(0, 0.2, start.shape)
    radius = rng.uniform(0.01, 0.04, (count, 2))
    return Ink(*(each.astype(np.float32) for each in (start, end, radius)))


def _put(images: Floats, rows: NDArray[np.int64], ink: Ink, color: NDArray[np.float64]) -> None:
    """Paints ink of a color (b, 1, 1, 3 or 1) over some of the images (B, S, S, 3), in place."""
    covered = coverage(ink, SIZE)[..., None]
    images[rows] += covered * (color.astype(np.float32) - images[rows])

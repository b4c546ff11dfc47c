"""Pen strokes drawn as distance fields, many images at a time, the paper they stand on, PNG files.

Shapes: B images, M segments, S pixels per side. Coordinates run from -1 to 1, y downwards.
"""

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

Floats = NDArray[np.float32]
NDArray8 = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Ink:
    """Round-ended line segments: `start` and `end` (B, M, 2), `radius` (B, M)."""

    start: Floats
    end: Floats
    radius: Floats


def coverage(ink: Ink, size: int) -> Floats:
    """Returns (B, S, S) in 0..1: how much of every pixel the ink covers."""
    axis = (np.arange(size, dtype=np.float32) + 0.5) * (2 / size) - 1
    x, y = np.tile(axis, size), np.repeat(axis, size)
    covered = np.zeros((len(ink.start), size * size), dtype=np.float32)
    for segment in range(ink.start.shape[1]):
        x0, y0 = (ink.start[:, segment, i, None] for i in (0, 1))
        dx, dy = (ink.end[:, segment, i, None] - ink.start[:, segment, i, None] for i in (0, 1))
        px, py = x - x0, y - y0
        along = ((px * dx + py * dy) / np.maximum(dx * dx + dy * dy, 1e-9)).clip(0, 1)
        distance = np.hypot(px - along * dx, py - along * dy)
        inside = (ink.radius[:, segment, None] - distance) * (size / 2) + 0.5
        np.maximum(covered, inside, out=covered)
    return covered.clip(0, 1).reshape(-1, size, size)


def bend(start: Floats, end: Floats, bow: Floats, pieces: int) -> Floats:
    """Returns (..., pieces + 1, 2): points of the parabola between two points (..., 2).

    Args:
        start: Of the strokes.
        end: Of the strokes.
        bow: (...) how far the middle lies off the straight line, as a share of its length.
        pieces: Straight pieces per stroke, at least 1.
    """
    t = np.linspace(0, 1, pieces + 1, dtype=np.float32)[:, None]
    chord = end - start
    normal = np.stack([-chord[..., 1], chord[..., 0]], axis=-1)
    sag = 4 * t * (1 - t) * (bow[..., None] * normal)[..., None, :]
    points: Floats = start[..., None, :] + t * chord[..., None, :] + sag
    return points


def bases(turn: ArrayLike, size: ArrayLike, slant: ArrayLike) -> Floats:
    """Returns (B, 1, 2, 2): matrices, to be multiplied from the right, that slant, turn and scale.

    Args:
        turn: (B,) angles.
        size: (B, 2) factors of width and height.
        slant: (B,) shifts to the right per height, downwards.
    """
    angle, lean = np.asarray(turn), np.asarray(slant)
    one, none = np.ones_like(lean), np.zeros_like(lean)
    rotation = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    shear = np.array([[one, none], [lean, one]])
    base = np.einsum("ijb,jkb,bk->bik", shear, rotation, np.asarray(size)).astype(np.float32)
    return np.expand_dims(base, 1)


def paper(rng: np.random.Generator, count: int, size: int, grain: float) -> Floats:
    """Returns (B, S, S) around 0: a gradient, soft blotches and fine grain of strength `grain`."""
    axis = np.linspace(-1, 1, size, dtype=np.float32)
    slope = rng.normal(0, 0.1, (count, 2, 1, 1)).astype(np.float32)
    coarse = rng.normal(0, 0.08, (count, 5, 5)).astype(np.float32)
    blotches = _stretch(coarse, size)
    fine = rng.normal(0, grain, (count, size, size)).astype(np.float32)
    shade: Floats = slope[:, 0] * axis + slope[:, 1] * axis[:, None] + blotches + fine
    return shade


def blur(images: Floats, strength: Floats) -> Floats:
    """Mixes every pixel of (B, S, S, C) with its neighbours; strength (B,) in 0..1."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    rows = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    soft = (rows[:, :, :-2] + 2 * rows[:, :, 1:-1] + rows[:, :, 2:]) / 16
    share = strength[:, None, None, None]
    mixed: Floats = images * (1 - share) + soft * share
    return mixed


def pixels(images: Floats) -> NDArray8:
    """Returns uint8 pixels of images in 0..1; what lies beyond is cut off."""
    return (images.clip(0, 1) * 255).round().astype(np.uint8)


def png(image: NDArray8) -> bytes:
    """Returns the PNG file of an image (S, S, 3)."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return buffer.getvalue()


def _stretch(coarse: Floats, size: int) -> Floats:
    """Bilinear enlargement of (B, K, K) to (B, S, S)."""
    cells = coarse.shape[1]
    at = np.linspace(0, cells - 1, size, dtype=np.float32)
    low = np.minimum(at.astype(np.int64), cells - 2)
    part = at - low
    tall = coarse[:, low] * (1 - part)[:, None] + coarse[:, low + 1] * part[:, None]
    wide: Floats = tall[:, :, low] * (1 - part) + tall[:, :, low + 1] * part
    return wide

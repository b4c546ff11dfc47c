"""Invented writing systems, drawn from a seed: 8 scripts > 40 families > 160 glyphs, no download.

A script is a way of writing (pen, slant, bow, directions, a mark that all its glyphs carry, ink), a
family is a radical of two strokes, a glyph adds two strokes of its own. The 24 images of a glyph
differ in shape, pen, colours, paper, stains and blur. Glyph numbers, by which classes are sorted,
are a random permutation, so any range of classes mixes scripts and families.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsearch.data.drawing import (
    Floats,
    Ink,
    NDArray8,
    bases,
    bend,
    blur,
    coverage,
    paper,
    pixels,
    png,
)
from hsearch.data.records import Record

LEVEL_NAMES = ("script", "family", "glyph")
SCRIPTS, FAMILIES, GLYPHS, IMAGES = 8, 5, 4, 24
SIZE = 32
SEED = 2020

_GRID = np.array([-0.66, -0.22, 0.22, 0.66], dtype=np.float32)
_PIECES = 4
# What every glyph of a script carries: strokes as x0, y0, x1, y1.
_MARKS = (
    ((-0.85, -0.8, 0.85, -0.8),),
    ((-0.8, -0.85, -0.8, 0.85),),
    ((-0.85, 0.8, 0.85, 0.8),),
    ((0.6, 0.75, 0.62, 0.75), (0.85, 0.75, 0.87, 0.75)),
    ((-0.5, -0.85, 0.5, -0.85), (-0.5, 0.85, 0.5, 0.85)),
    ((0.8, -0.85, 0.8, 0.3),),
    ((-0.75, -0.75, -0.73, -0.75), (0.73, -0.75, 0.75, -0.75)),
    ((-0.85, 0.85, 0.0, 0.85), (-0.85, 0.85, -0.85, 0.2)),
)


@dataclass(frozen=True)
class Style:
    """How a script is written.

    Attributes:
        radius: Of the pen.
        contrast: How much thinner strokes along the nib are, 0..1.
        nib: Angle of the nib.
        slant: Shift to the right per height.
        bow: Of curved strokes, as a share of their length.
        direction: Preferred angle of strokes.
        knob: Radius of the dot at a stroke's end, in radii of the pen; below 1 it tapers.
        hue: (3,) tendency of the ink.
        grain: Of the paper.
        mark: Which of `_MARKS`.
    """

    radius: float
    contrast: float
    nib: float
    slant: float
    bow: float
    direction: float
    knob: float
    hue: Floats
    grain: float
    mark: int


def records() -> Iterator[Record]:
    """Yields all images as PNG bytes."""
    rng = np.random.default_rng(SEED)
    numbers = iter(rng.permutation(SCRIPTS * FAMILIES * GLYPHS).tolist())
    for script, style in enumerate(_styles(rng)):
        for family in range(FAMILIES):
            strokes = _strokes(rng, style)
            for glyph in range(GLYPHS):
                own = strokes[2 + 2 * glyph : 4 + 2 * glyph]
                number = next(numbers)
                labels = (
                    f"script-{script}",
                    f"family-{script * FAMILIES + family:02d}",
                    f"glyph-{number:03d}",
                )
                images = _draw(rng, style, np.concatenate([strokes[:2], own]))
                for i, image in enumerate(images):
                    yield Record(f"{labels[-1]}/{i:02d}", png(image), labels, order=number)


def _styles(rng: np.random.Generator) -> list[Style]:
    """Spreads the properties over the scripts, so that no two are written alike."""
    spread = {
        key: rng.permutation(SCRIPTS) / (SCRIPTS - 1)
        for key in ("radius", "contrast", "slant", "bow", "direction", "knob", "grain")
    }
    hues = rng.normal(0, 1, (SCRIPTS, 3))
    hues /= np.linalg.norm(hues, axis=1, keepdims=True)
    return [
        Style(
            radius=0.055 + 0.045 * spread["radius"][script],
            contrast=0.6 * spread["contrast"][script],
            nib=float(rng.uniform(0, np.pi)),
            slant=-0.3 + 0.6 * spread["slant"][script],
            bow=0.4 * spread["bow"][script],
            direction=np.pi * spread["direction"][script],
            knob=(0.4, 1.0, 1.0, 1.9)[int(3.99 * spread["knob"][script])],
            hue=hues[script].astype(np.float32),
            grain=0.02 + 0.05 * spread["grain"][script],
            mark=script,
        )
        for script in range(SCRIPTS)
    ]


def _strokes(rng: np.random.Generator, style: Style) -> Floats:
    """Draws (2 + 2 GLYPHS, 5) strokes of a family: x0, y0, x1, y1, bow.

    The first two are the long ones of the radical; then come two short ones per glyph.
    """
    points = np.stack(np.meshgrid(_GRID, _GRID), axis=-1).reshape(-1, 2)
    first, second = np.triu_indices(len(points), 1)
    chords = points[second] - points[first]
    lengths = np.hypot(*chords.T)
    usual = np.exp(np.cos(2 * (np.arctan2(chords[:, 1], chords[:, 0]) - style.direction)))
    radical = _pick(rng, usual * (lengths > 1.2), 2)
    own = _pick(rng, usual * (lengths < 1.0), 2 * GLYPHS)
    chosen = np.concatenate([radical, own])
    bow = style.bow * rng.choice([-1.0, 1.0], len(chosen))
    return np.column_stack([points[first[chosen]], points[second[chosen]], bow]).astype(np.float32)


def _pick(rng: np.random.Generator, weight: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    return rng.choice(len(weight), count, replace=False, p=weight / weight.sum())


def _draw(rng: np.random.Generator, style: Style, strokes: Floats) -> NDArray8:
    """Returns (B, S, S, 3) uint8: one glyph, written many times."""
    marks = np.array([(*mark, 0.0) for mark in _MARKS[style.mark]], dtype=np.float32)
    shape = np.concatenate([strokes, marks])
    covered = coverage(_write(rng, style, shape), SIZE)[..., None]
    shade = paper(rng, IMAGES, SIZE, style.grain)[..., None]
    light = rng.uniform(0.55, 0.95, (IMAGES, 1, 1, 1))
    tint = rng.normal(0, 0.06, (IMAGES, 1, 1, 3))
    ink = light - rng.uniform(0.35, 0.65, (IMAGES, 1, 1, 1)) + 0.12 * style.hue
    ink = ink + rng.normal(0, 0.08, (IMAGES, 1, 1, 3))
    stains = _stains(rng)[..., None]
    page = (light + tint + shade) * (1 - 0.5 * stains)
    images = page * (1 - covered * (1 - stains)) + ink * covered * (1 - stains)
    soft = blur(images.astype(np.float32), rng.uniform(0, 0.9, IMAGES).astype(np.float32))
    return pixels(soft)


def _write(rng: np.random.Generator, style: Style, shape: Floats) -> Ink:
    """Turns (K, 5) strokes into segments, another way for each image."""
    wobble = rng.normal(0, 0.04, (IMAGES, len(shape), 5)).astype(np.float32)
    drawn = shape + wobble
    points = bend(drawn[..., :2], drawn[..., 2:4], drawn[..., 4], _PIECES) @ _bases(rng, style)
    points += rng.uniform(-0.12, 0.12, (IMAGES, 1, 1, 2)).astype(np.float32)
    start, end = points[:, :, :-1], points[:, :, 1:]
    angle = np.arctan2(end[..., 1] - start[..., 1], end[..., 0] - start[..., 0])
    pen = style.radius * rng.uniform(0.75, 1.35, (IMAGES, 1, 1))
    radius = pen * (1 - style.contrast * np.abs(np.cos(angle - style.nib)))
    radius = radius * np.linspace(1, min(style.knob, 1), _PIECES)
    knobs = points[:, :, -1:]
    knob_radius = np.broadcast_to(pen * max(style.knob, 0.1), (IMAGES, len(shape), 1))
    return Ink(
        np.concatenate([start, knobs], axis=2).reshape(IMAGES, -1, 2),
        np.concatenate([end, knobs], axis=2).reshape(IMAGES, -1, 2),
        np.concatenate([radius, knob_radius], axis=2).reshape(IMAGES, -1).astype(np.float32),
    )


def _bases(rng: np.random.Generator, style: Style) -> Floats:
    """Returns (B, 1, 2, 2): turn, size and slant of every image."""
    turn = rng.normal(0, 0.1, IMAGES)
    size = rng.uniform(0.78, 1.0, (IMAGES, 2))
    slant = -style.slant + rng.normal(0, 0.07, IMAGES)
    return bases(turn, size, slant)


def _stains(rng: np.random.Generator) -> Floats:
    """Returns (B, S, S) in 0..1: one spot per image that hides the writing, sometimes none."""
    centre = rng.uniform(-1.2, 1.2, (IMAGES, 1, 2)).astype(np.float32)
    end = centre + rng.normal(0, 0.3, centre.shape).astype(np.float32)
    radius = rng.uniform(0.0, 0.25, (IMAGES, 1)).astype(np.float32)
    return coverage(Ink(centre, end, radius), SIZE)

"""Sixteen things of few pen strokes, such as a child draws them: sun, house, boat and so on.

A stroke is x0, y0, x1, y1, bow, radius in the thing's own box from -1 to 1, y downwards; one that
ends where it begins is a dot.
"""

import numpy as np

from hsearch.data.drawing import Floats, Ink, bases, bend

_PIECES = 3

Stroke = tuple[float, float, float, float, float, float]

# In the order in which they are drawn: what comes first stands behind.
PICTOGRAMS: dict[str, tuple[Stroke, ...]] = {
    "mountain": (
        (-1.4, 0.8, -0.4, -0.8, 0, 0.1),
        (-0.4, -0.8, 0.5, 0.8, 0, 0.1),
        (0.1, 0.1, 0.6, -0.4, 0, 0.1),
        (0.6, -0.4, 1.4, 0.8, 0, 0.1),
    ),
    "sun": (
        (0, 0, 0, 0, 0, 0.5),
        (-0.95, 0, 0.95, 0, 0, 0.07),
        (0, -0.95, 0, 0.95, 0, 0.07),
        (-0.67, -0.67, 0.67, 0.67, 0, 0.07),
        (-0.67, 0.67, 0.67, -0.67, 0, 0.07),
    ),
    "moon": ((-0.1, -0.75, -0.1, 0.75, -0.4, 0.2), (-0.1, -0.75, -0.1, 0.75, -0.2, 0.13)),
    "star": (
        (0, -0.6, 0, 0.6, 0, 0.12),
        (-0.52, -0.3, 0.52, 0.3, 0, 0.12),
        (-0.52, 0.3, 0.52, -0.3, 0, 0.12),
    ),
    "cloud": (
        (-0.6, 0.15, -0.5, 0.15, 0, 0.38),
        (-0.05, -0.15, 0.05, -0.15, 0, 0.48),
        (0.55, 0.15, 0.65, 0.15, 0, 0.36),
    ),
    "wave": (
        (-1.3, 0.1, -0.45, 0.1, -0.3, 0.11),
        (-0.45, 0.1, 0.4, 0.1, 0.3, 0.11),
        (0.4, 0.1, 1.3, 0.1, -0.3, 0.11),
    ),
    "house": (
        (-0.6, 0, -0.6, 0.9, 0, 0.1),
        (0.6, 0, 0.6, 0.9, 0, 0.1),
        (-0.6, 0.9, 0.6, 0.9, 0, 0.1),
        (-0.85, 0, 0, -0.85, 0, 0.1),
        (0, -0.85, 0.85, 0, 0, 0.1),
        (0, 0.5, 0, 0.85, 0, 0.13),
    ),
    "tree": ((0, 0.95, 0, 0.1, 0, 0.11), (0, -0.35, 0, -0.35, 0, 0.58)),
    "fir": (
        (0, 0.95, 0, -0.8, 0, 0.09),
        (0, -0.9, -0.4, -0.25, 0, 0.1),
        (0, -0.9, 0.4, -0.25, 0, 0.1),
        (0, -0.4, -0.6, 0.45, 0, 0.1),
        (0, -0.4, 0.6, 0.45, 0, 0.1),
    ),
    "lamp": (
        (-0.2, 0.95, -0.2, -0.7, 0, 0.07),
        (-0.2, -0.7, 0.35, -0.7, -0.2, 0.07),
        (0.35, -0.45, 0.35, -0.45, 0, 0.24),
    ),
    "car": (
        (-0.75, 0.2, 0.75, 0.2, 0, 0.2),
        (-0.45, -0.1, 0.35, -0.1, -0.6, 0.1),
        (-0.45, 0.5, -0.45, 0.5, 0, 0.22),
        (0.45, 0.5, 0.45, 0.5, 0, 0.22),
    ),
    "boat": (
        (-0.75, 0.35, 0.75, 0.35, 0.25, 0.14),
        (-0.75, 0.35, 0.75, 0.35, 0, 0.1),
        (0, 0.3, 0, -0.85, 0, 0.07),
        (0, -0.85, 0.55, 0.05, 0, 0.07),
        (0.55, 0.05, 0, 0.05, 0, 0.07),
    ),
    "bird": ((-0.85, -0.25, 0, 0.15, -0.3, 0.11), (0, 0.15, 0.85, -0.25, -0.3, 0.11)),
    "fish": (
        (-0.55, 0, 0.75, 0, 0.28, 0.09),
        (-0.55, 0, 0.75, 0, -0.28, 0.09),
        (-0.55, 0, -0.9, -0.35, 0, 0.09),
        (-0.55, 0, -0.9, 0.35, 0, 0.09),
        (-0.9, -0.35, -0.9, 0.35, 0, 0.09),
    ),
    "person": (
        (0, -0.65, 0, -0.65, 0, 0.25),
        (0, -0.4, 0, 0.3, 0, 0.09),
        (-0.45, -0.1, 0.45, -0.1, 0, 0.08),
        (0, 0.3, -0.35, 0.95, 0, 0.09),
        (0, 0.3, 0.35, 0.95, 0, 0.09),
    ),
    "flower": (
        (0, 0.95, 0, -0.1, 0.1, 0.07),
        (0.05, 0.6, 0.4, 0.3, 0, 0.09),
        (-0.25, -0.4, 0.25, -0.4, 0, 0.19),
        (0, -0.65, 0, -0.15, 0, 0.19),
    ),
}
NAMES = tuple(PICTOGRAMS)


def write(rng: np.random.Generator, name: str, places: Floats, sizes: Floats) -> Ink:
    """Returns the strokes of one thing, another way for each image.

    Args:
        rng: Draws shape, turn, mirroring and pen.
        name: One of `NAMES`.
        places: (B, 2) where its middle stands in the image, x and y in -1..1.
        sizes: (B,) half of its width and height.
    """
    shape, count = np.array(PICTOGRAMS[name], dtype=np.float32), len(places)
    drawn = shape[:, :5] + rng.normal(0, 0.04, (count, len(shape), 5)).astype(np.float32)
    mirror = rng.choice([-1.0, 1.0], count)
    stretch = sizes[:, None] * rng.uniform(0.85, 1.15, (count, 2))
    stretch[:, 0] *= mirror
    base = bases(rng.normal(0, 0.1, count), stretch, rng.normal(0, 0.08, count))
    pen = (sizes * rng.uniform(0.8, 1.3, count))[:, None, None] * shape[:, 5, None]
    curved = shape[:, 4] != 0
    parts = []
    for chosen, pieces in ((~curved, 1), (curved, _PIECES)):
        lines = drawn[:, chosen]
        points = bend(lines[..., :2], lines[..., 2:4], lines[..., 4], pieces) @ base
        points += places[:, None, None]
        width = np.broadcast_to(pen[:, chosen], (*points.shape[:2], pieces))
        parts.append((points[:, :, :-1], points[:, :, 1:], width[..., None]))
    start, end, radius = (
        np.concatenate([each.reshape(count, -1, each.shape[-1]) for each in kind], axis=1)
        for kind in zip(*parts, strict=True)
    )
    return Ink(start, end, radius[..., 0].astype(np.float32))

"""Squares painted over at random, with every draw made before any image is touched.

A network that sees only a part of a thing must learn all its parts.

References:
    DeVries, Taylor, Improved Regularization of Convolutional Neural Networks with Cutout, 2017,
    arXiv:1708.04552.
    Ben-Baruch et al., Asymmetric Loss for Multi-Label Classification, ICCV 2021, arXiv:2009.14119
    (one of half the image's side, in a random colour; MulCon follows it).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from hsearch.spec import ImageSpec


@dataclass(frozen=True, eq=False)
class Holes:
    """What is painted over in every image of a batch.

    Attributes:
        middle: (B, 2) height and width at which the middle lies, as shares of the image's, 0..1.
        side: Of the squares, as a share of the image's side.
        color: (B, 3) uint8 of the paint.
    """

    middle: NDArray[np.float64]
    side: float
    color: NDArray[np.uint8]


def draw_holes(rng: np.random.Generator, count: int, image: ImageSpec) -> Holes | None:
    """Draws those of `count` images; None, and nothing is drawn, where none is asked for."""
    if not image.cutout:
        return None
    middle = rng.random((count, 2))
    return Holes(middle, image.cutout, rng.integers(256, size=(count, 3), dtype=np.uint8))


def cut_out(pixels: Tensor, holes: Holes, index: int) -> Tensor:
    """Returns an image with its square painted over; what lies beyond the edge is cut off.

    Args:
        pixels: uint8 (3, H, W), which stays as it is.
        holes: Of the batch.
        index: Which one belongs to this image.
    """
    sides = np.array(pixels.shape[1:])
    first = np.round(holes.middle[index] * sides - holes.side * sides / 2).astype(np.int64)
    last = first + np.round(holes.side * sides).astype(np.int64)
    top, left = first.clip(0)
    bottom, right = last.clip(0)
    painted = pixels.clone()
    painted[:, top:bottom, left:right] = from_numpy(holes.color[index])[:, None, None]
    return painted

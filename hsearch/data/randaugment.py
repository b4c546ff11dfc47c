"""RandAugment: a few random changes of one strength, every draw made before any image is touched.

Each change is one of fourteen, all equally likely; the strength is the same for all, M of 30. What
has a direction gets a random one. With s = M / 30:

    identity, autocontrast, equalize       whatever the strength
    brightness, color, contrast, sharpness by the factor 1 + 0.9 s or 1 - 0.9 s
    posterize                              8 - round(4 s) bits are left of a channel
    solarize                               values from 256 - 256 s on are inverted
    rotate                                 by 30 s degrees
    shear_x, shear_y                       by 0.3 s of the height or width, the middle stays
    translate_x, translate_y               by 0.45 s of the width or height

What comes in from outside the image is grey.

References:
    Cubuk, Zoph, Shlens, Le, RandAugment: Practical automated data augmentation with a reduced
    search space, NeurIPS 2020, arXiv:1909.13719. (torchvision has the same fourteen and
    strengths; it shears about a corner, and fills with black.)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hsearch.spec import ImageSpec

STRONGEST = 30
GREY = 128.0

Change = Callable[[Tensor, float], Tensor]
"""Of uint8 (3, H, W) and a strength in -1..1, whose sign is the direction."""


@dataclass(frozen=True, eq=False)
class Operations:
    """The changes that every image of a batch goes through, in their order.

    Attributes:
        kinds: (B, n) numbers of `CHANGES`.
        strengths: (B, n) in -1..1.
    """

    kinds: NDArray[np.int64]
    strengths: NDArray[np.float64]


def draw_operations(rng: np.random.Generator, count: int, image: ImageSpec) -> Operations | None:
    """Draws those of `count` images; None, and nothing is drawn, where none is asked for."""
    if image.randaugment is None:
        return None
    number, magnitude = image.randaugment
    kinds = rng.integers(len(CHANGES), size=(count, number))
    signs = rng.choice([-1.0, 1.0], size=(count, number))
    return Operations(kinds, signs * (magnitude / STRONGEST))


def operate(pixels: Tensor, operations: Operations, index: int) -> Tensor:
    """Returns an image after its changes.

    Args:
        pixels: uint8 (3, H, W), which stays as it is.
        operations: Of the batch.
        index: Which ones belong to this image.
    """
    names = list(CHANGES)
    drawn = zip(operations.kinds[index], operations.strengths[index], strict=True)
    for kind, strength in drawn:
        pixels = CHANGES[names[kind]](pixels, float(strength))
    return pixels


def _tv(name: str) -> Callable[..., Tensor]:
    from torchvision.transforms.v2 import functional  # half a second that few recipes need

    found: Callable[..., Tensor] = getattr(functional, name)
    return found


def _by_factor(name: str) -> Change:
    return lambda pixels, strength: _tv(name)(pixels, 1.0 + 0.9 * strength)


def _posterize(pixels: Tensor, strength: float) -> Tensor:
    kept: Tensor = pixels & (256 - 2 ** round(4 * abs(strength)))
    return kept


def _solarize(pixels: Tensor, strength: float) -> Tensor:
    return torch.where(pixels >= 256 - 256 * abs(strength), 255 - pixels, pixels)


def _move(
    pixels: Tensor,
    *,
    angle: float = 0.0,
    shear: tuple[float, float] = (0.0, 0.0),
    shift: tuple[float, float] = (0.0, 0.0),
) -> Tensor:
    """Turns clockwise by degrees; shears and shifts are shares of the sides, x before y."""
    height, width = pixels.shape[1:]
    return _tv("affine")(
        pixels,
        angle=angle,
        translate=[round(shift[0] * width), round(shift[1] * height)],
        scale=1.0,
        shear=[math.degrees(math.atan(each)) for each in shear],
        fill=[GREY] * 3,
    )


CHANGES: dict[str, Change] = {
    "identity": lambda pixels, _: pixels,
    "autocontrast": lambda pixels, _: _tv("autocontrast")(pixels),
    "equalize": lambda pixels, _: _tv("equalize")(pixels),
    "brightness": _by_factor("adjust_brightness"),
    "color": _by_factor("adjust_saturation"),
    "contrast": _by_factor("adjust_contrast"),
    "sharpness": _by_factor("adjust_sharpness"),
    "posterize": _posterize,
    "solarize": _solarize,
    "rotate": lambda pixels, strength: _move(pixels, angle=-30 * strength),
    "shear_x": lambda pixels, strength: _move(pixels, shear=(0.3 * strength, 0.0)),
    "shear_y": lambda pixels, strength: _move(pixels, shear=(0.0, 0.3 * strength)),
    "translate_x": lambda pixels, strength: _move(pixels, shift=(0.45 * strength, 0.0)),
    "translate_y": lambda pixels, strength: _move(pixels, shift=(0.0, 0.45 * strength)),
}

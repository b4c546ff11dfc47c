"""Random changes of an image's colours, with every draw made before any image is touched.

References:
    Chen et al., A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020,
    arXiv:2002.05709, appendix A.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hsearch.spec import ImageSpec


@dataclass(frozen=True, eq=False)
class Colors:
    """What happens to the colours of every image of a batch.

    Attributes:
        factors: (B, 3) by which brightness, contrast and saturation are multiplied.
        hue: (B,) turns of the hue, -0.5 to 0.5.
        changed: (B,) whether these are applied.
        gray: (B,) whether the image then loses its colours.
    """

    factors: NDArray[np.float64]
    hue: NDArray[np.float64]
    changed: NDArray[np.bool_]
    gray: NDArray[np.bool_]


def draw_colors(rng: np.random.Generator, count: int, image: ImageSpec) -> Colors | None:
    """Draws the changes of `count` images; None, and nothing is drawn, where none is asked for."""
    if not any(image.color_jitter) and not image.grayscale:
        return None
    *most, turn = image.color_jitter
    low = np.maximum(0.0, 1.0 - np.array(most))
    factors = rng.uniform(low, 1.0 + np.array(most), size=(count, 3))
    hue = rng.uniform(-turn, turn, size=count)
    changed, gray = rng.random((2, count)) < [[image.color_jitter_chance], [image.grayscale]]
    return Colors(factors, hue, changed & any(image.color_jitter), gray)


def recolor(pixels: Tensor, colors: Colors, index: int) -> Tensor:
    """Returns an image with its colours changed: brightness first, then contrast, saturation, hue.

    (The published code draws the order of the four as well.)

    Args:
        pixels: uint8 (3, H, W).
        colors: Of the batch.
        index: Which one belongs to this image.
    """
    from torchvision.transforms.v2 import functional as tv  # half a second that few recipes need

    if colors.changed[index]:
        brightness, contrast, saturation = colors.factors[index]
        pixels = tv.adjust_brightness(pixels, float(brightness))
        pixels = tv.adjust_contrast(pixels, float(contrast))
        pixels = tv.adjust_saturation(pixels, float(saturation))
        if colors.hue[index]:
            pixels = tv.adjust_hue(pixels, float(colors.hue[index]))
    if colors.gray[index]:
        pixels = tv.rgb_to_grayscale(pixels, num_output_channels=3)
    return pixels

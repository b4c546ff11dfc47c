"""Crops, flips and normalisation, with every random draw made before any image is touched.

Images stay uint8 until a whole batch is normalised, on whatever device it is then.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray

from hsearch.spec import ImageSpec

_TRIES = 10


@dataclass(frozen=True, eq=False)
class Crops:
    """The cut of every image of a batch, in pixels, and whether it is mirrored; all (B,)."""

    top: NDArray[np.int64]
    left: NDArray[np.int64]
    height: NDArray[np.int64]
    width: NDArray[np.int64]
    flip: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.top)


def draw_crops(
    rng: np.random.Generator, heights: ArrayLike, widths: ArrayLike, image: ImageSpec
) -> Crops:
    """Draws random resized crops for images of the given sizes.

    A crop takes a uniform share of the area (`image.scale`) at a log-uniform aspect ratio
    (`image.ratio`), lies anywhere inside the image, and is drawn anew up to ten times where it
    would not fit; then it is the largest centred one of an allowed ratio. Squeezed crops have the
    same share of every height and width instead, and the aspect ratio of their image. The generator
    always gives the same count of numbers, so the next draw never depends on the sizes.

    Args:
        rng: Equal on all ranks, with the sizes of the global batch, so that all draw the same.
        heights: (B,) of the images.
        widths: (B,) of the images.
        image: Its `cropping`, `scale`, `ratio` and `flip` are used.
    """
    tall, wide = np.asarray(heights, dtype=np.int64), np.asarray(widths, dtype=np.int64)
    count = len(tall)
    low, high = image.ratio
    area = tall * wide * rng.uniform(*image.scale, size=(_TRIES, count))
    ratio = np.exp(rng.uniform(np.log(low), np.log(high), size=(_TRIES, count)))
    place_y, place_x, mirror = rng.random((3, count))
    width = np.round(np.sqrt(area * ratio)).astype(np.int64)
    height = np.round(np.sqrt(area / ratio)).astype(np.int64)
    if image.cropping == "squeezed":
        share = np.full((_TRIES, 1), image.crop / image.resize)
        width = np.maximum(1, np.round(share * wide)).astype(np.int64)
        height = np.maximum(1, np.round(share * tall)).astype(np.int64)
    fits = (width > 0) & (width <= wide) & (height > 0) & (height <= tall)
    chosen = fits.argmax(axis=0), np.arange(count)
    centred_height, centred_width = _largest(tall, wide, image.ratio)
    found = fits.any(axis=0)
    height = np.where(found, height[chosen], centred_height)
    width = np.where(found, width[chosen], centred_width)
    top = np.where(found, place_y * (tall - height + 1), (tall - height) // 2)
    left = np.where(found, place_x * (wide - width + 1), (wide - width) // 2)
    return Crops(top.astype(np.int64), left.astype(np.int64), height, width, mirror < image.flip)


def _largest(
    tall: NDArray[np.int64], wide: NDArray[np.int64], ratio: tuple[float, float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Heights and widths of the largest crops whose aspect ratio lies in the range."""
    low, high = ratio
    height = np.where(wide < tall * low, np.round(wide / low), tall)
    width = np.where(wide > tall * high, np.round(tall * high), wide)
    return height.astype(np.int64), width.astype(np.int64)


def train_image(
    pixels: torch.Tensor, crops: Crops, index: int, size: int, interpolation: str = "bilinear"
) -> torch.Tensor:
    """Returns crop number `index` of an image, resized and perhaps mirrored.

    Args:
        pixels: uint8 (3, H, W).
        crops: Of the batch.
        index: Which one belongs to this image.
        size: Side of the result.
        interpolation: Of `ImageSpec`.

    Returns:
        uint8 (3, size, size).
    """
    top, left = int(crops.top[index]), int(crops.left[index])
    height, width = int(crops.height[index]), int(crops.width[index])
    cut = pixels[:, top : top + height, left : left + width]
    cut = resize(cut, size, size, interpolation)
    return cut.flip(-1) if crops.flip[index] else cut


def eval_image(pixels: torch.Tensor, size: int) -> torch.Tensor:
    """Returns the centre of an image: uint8 (3, size, size) of uint8 (3, H, W), H and W >= size."""
    top = round((pixels.shape[1] - size) / 2)
    left = round((pixels.shape[2] - size) / 2)
    return pixels[:, top : top + size, left : left + size]


def resize(
    pixels: torch.Tensor, height: int, width: int, interpolation: str = "bilinear"
) -> torch.Tensor:
    """Resizes uint8 (3, H, W) with antialiasing; the same tensor if the size is right."""
    if tuple(pixels.shape[1:]) == (height, width):
        return pixels
    # The uint8 kernel is twice as fast on pixels that lie colour by colour.
    packed = pixels.unsqueeze(0).contiguous(memory_format=torch.channels_last)
    return F.interpolate(packed, size=(height, width), mode=interpolation, antialias=True)[0]


def network_input(batch: torch.Tensor, image: ImageSpec) -> torch.Tensor:
    """Returns what a network takes: images normalised, cached features as they are.

    Args:
        batch: uint8 (B, 3, S, S) images, or float32 (B, ...) features.
        image: As in `normalise`.
    """
    return normalise(batch, image) if batch.dtype == torch.uint8 else batch


def normalise(batch: torch.Tensor, image: ImageSpec) -> torch.Tensor:
    """Returns the network's input, on the batch's device.

    Args:
        batch: uint8 (B, 3, S, S), RGB.
        image: `channels` is the order of the result, of `mean` and of `std`; a full channel is
            `range_max` before `mean` is subtracted and `std` is divided by.

    Returns:
        float32 (B, 3, S, S).
    """
    if image.channels == "bgr":
        batch = batch.flip(1)
    floats = batch.to(torch.float32)
    for channel, (mean, std) in enumerate(zip(image.mean, image.std, strict=True)):
        floats[:, channel].mul_(image.range_max / 255 / std).sub_(mean / std)
    return floats

"""Views of images: random ones of a batch, fixed ones that can be cached, and the evaluated one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hsearch.data.colors import Colors, draw_colors, recolor
from hsearch.data.cutout import Holes, cut_out, draw_holes
from hsearch.data.pixels import Pixels
from hsearch.data.randaugment import Operations, draw_operations, operate
from hsearch.data.transforms import Crops, draw_crops, eval_image, resize, train_image
from hsearch.seeds import rng_for
from hsearch.spec import ImageSpec

EVALUATED = 0
"""The number of the view that is evaluated; random ones count from 1."""

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Augmentation:
    """Random changes of some images, all drawn before any image is touched.

    Attributes:
        pixels: Where images come from.
        rows: (B,) rows of the images.
        spec: How images are changed.
        crops: Of every image.
        colors: Of every image; null where none change.
        holes: Of every image; null where there are none.
        operations: Of every image; null where there are none.
    """

    pixels: Pixels
    rows: IntArray
    spec: ImageSpec
    crops: Crops
    colors: Colors | None
    holes: Holes | None
    operations: Operations | None

    @classmethod
    def draw(
        cls, rng: np.random.Generator, pixels: Pixels, rows: IntArray, spec: ImageSpec
    ) -> "Augmentation":
        """Draws the changes of the images of `rows`."""
        return cls(
            pixels,
            rows,
            spec,
            crops=draw_crops(rng, *pixels.sizes(rows), spec),
            colors=draw_colors(rng, rows.size, spec),
            holes=draw_holes(rng, rows.size, spec),
            operations=draw_operations(rng, rows.size, spec),
        )

    def image(self, position: int) -> Tensor:
        """Returns the changed image of one of the rows: uint8 (3, S, S)."""
        pixels = self.pixels[int(self.rows[position])]
        image = train_image(pixels, self.crops, position, self.spec.crop, self.spec.interpolation)
        image = image if self.colors is None else recolor(image, self.colors, position)
        image = image if self.holes is None else cut_out(image, self.holes, position)
        return image if self.operations is None else operate(image, self.operations, position)


class FixedViews:
    """A few random views of every image, the same in every epoch, trial and study.

    They depend on the images and on how they are changed, and on no seed of a job, so that all
    jobs share what a frozen backbone makes of them.

    Attributes:
        pixels: Where images come from.
        image: How images are changed.
        num_views: Random views of every image; with 0 images are trained on as they are evaluated.
    """

    def __init__(self, pixels: Pixels, image: ImageSpec) -> None:
        self.pixels, self.spec, self.num_views = pixels, image, image.cached_views
        self._drawn: dict[int, Augmentation] = {}

    def image(self, row: int, view: int) -> Tensor:
        """Returns one view of an image, by its number: uint8 (3, S, S)."""
        if view == EVALUATED:
            return evaluated_image(self.pixels, self.spec, row)
        if view not in self._drawn:
            rng = rng_for(0, "fixed views", view)
            self._drawn[view] = Augmentation.draw(rng, self.pixels, self.pixels.rows, self.spec)
        return self._drawn[view].image(int(np.searchsorted(self.pixels.rows, row)))


def draw_views(rng: np.random.Generator, count: int, copies: int, num_views: int) -> IntArray:
    """Draws which of its fixed views every image of a batch shows.

    Args:
        rng: Equal on all ranks.
        count: Images B of the batch.
        copies: Views V of each of them in the batch; they differ from each other.
        num_views: Random views that there are, at least V; or 0 with one copy.

    Returns:
        (V * B,) numbers of views, those of all first copies first.
    """
    if not num_views:
        return np.full(copies * count, EVALUATED, dtype=np.int64)
    order = rng.random((num_views, count)).argsort(axis=0)
    return (order[:copies] + 1).astype(np.int64).ravel()


def evaluated_image(pixels: Pixels, spec: ImageSpec, row: int) -> Tensor:
    """Returns an image as it is evaluated: its centre, or all of it squeezed; uint8 (3, S, S)."""
    if spec.evaluated == "squeezed":
        return resize(pixels[row], spec.crop, spec.crop, spec.interpolation)
    return eval_image(pixels[row], spec.crop)

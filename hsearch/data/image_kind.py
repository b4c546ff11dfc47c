"""What the images of a store are: photos, drawings, or too small to tell."""

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from hsearch.data.store import Store

ImageKind = Literal["photo", "drawing", "tiny"]

TINY_PIXELS = 64
"""Images whose short side is below it are tiny."""

LOOKED_AT = 32
COLOURS = 16
DRAWN_SHARE = 0.9
"""Of a drawing's pixels, that its commonest `COLOURS` colours have at least."""


def image_kind(store: Store, rows: NDArray[np.int64]) -> ImageKind:
    """Returns what most of a store's images are; it follows from the store and the rows alone.

    Sizes are known without opening images. Of the rows at most 32 are opened, evenly spaced. A
    photo has thousands of colours, a grey one still 256 greys that all occur; in a drawing nearly
    all pixels have one of a few.

    Args:
        store: The data set.
        rows: Of images that may be looked at.
    """
    if float(np.median(np.minimum(store.heights, store.widths))) < TINY_PIXELS:
        return "tiny"
    chosen = rows[np.linspace(0, len(rows) - 1, min(LOOKED_AT, len(rows))).round().astype(int)]
    shares = [_share_of_common_colours(store, int(row)) for row in chosen]
    return "drawing" if float(np.median(shares)) >= DRAWN_SHARE else "photo"


def _share_of_common_colours(store: Store, row: int) -> float:
    """The share of an image's pixels that its commonest colours have."""
    from hsearch.data.decoding import decode  # with torchvision

    pixels = decode(store.encoded(row)).to(torch.int64)
    colours = (pixels[0] << 16) | (pixels[1] << 8) | pixels[2]
    counts = np.unique(colours.numpy(), return_counts=True)[1]
    return float(np.sort(counts)[::-1][:COLOURS].sum() / counts.sum())

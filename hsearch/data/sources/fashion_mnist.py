"""Fashion-MNIST: 2 kinds > 6 groups > 10 articles of 7,000 grey images with 28 x 28 pixels.

Reads the four idx files, packed as .gz or not: train-images-idx3-ubyte.gz and so on. The groups are
those of Seo and Shin, Hierarchical convolutional neural networks for fashion image classification,
Expert Systems with Applications 116, 2019. All articles have images in both train and t10k, so
these are no split for metric learning. Four folds of unseen classes need eight besides the test, so
two articles are the test here: coats and shirts, which look much alike.
"""

import math
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hsearch.data.layout import Found, Layout
from hsearch.data.raw_images import as_png, mapped
from hsearch.data.records import Record
from hsearch.errors import DatasetError

HOME = "https://github.com/zalandoresearch/fashion-mnist"
TOTAL = 70_000
VARIANTS: dict[str, dict[str, object]] = {"fashion-mnist": {}}
LEVEL_NAMES = ("kind", "group", "article")
ARTICLES = (
    ("clothes", "tops", "T-shirt/top"),
    ("clothes", "bottoms", "Trouser"),
    ("clothes", "tops", "Pullover"),
    ("clothes", "dresses", "Dress"),
    ("clothes", "outers", "Coat"),
    ("goods", "shoes", "Sandal"),
    ("clothes", "tops", "Shirt"),
    ("goods", "shoes", "Sneaker"),
    ("goods", "accessories", "Bag"),
    ("goods", "shoes", "Ankle boot"),
)
TEST = ("Coat", "Shirt")
IMAGES = (2051, 28, 28)
LABELS = (2049,)
"""The number that a file begins with, and what follows the number of its entries."""


def records(layout: Layout) -> Found:
    """Yields the images of train and then of t10k, in their order."""
    names = [
        f"{part}-{kind}" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
    ]
    paths = layout.require(
        *(f"{name}-ubyte|{name}-ubyte.gz" for name in names), inside="data/fashion"
    )
    for part, images, labels in zip(("train", "t10k"), paths[::2], paths[1::2], strict=True):
        pixels, numbers = _read_idx(images, *IMAGES), _read_idx(labels, *LABELS)
        if len(pixels) != len(numbers):
            raise DatasetError(
                f"Every image needs a label, but {images} has {len(pixels)} images and {labels} "
                f"{len(numbers)} labels; get both again."
            )
        if numbers.max(initial=0) >= len(ARTICLES):
            row = int(np.argmax(numbers >= len(ARTICLES)))
            raise DatasetError(
                f"Labels must be 0 to {len(ARTICLES) - 1}, but number {row} of {labels} is "
                f"{numbers[row]}; get it again."
            )
        for row, number in enumerate(numbers.tolist()):
            yield Record(
                id=f"{part}/{row:05d}",
                image=partial(_png, pixels, row),
                labels=ARTICLES[number],
                split="test" if ARTICLES[number][-1] in TEST else "train",
                order=number,
            )


def _png(pixels: NDArray[np.uint8], row: int) -> bytes:
    return as_png(pixels[row])


def _read_idx(path: Path, magic: int, *sizes: int) -> NDArray[np.uint8]:
    """The array of an idx file: big-endian head of magic number, count and sizes, then bytes."""
    data = mapped(path)
    start = 4 * (2 + len(sizes))
    head = np.frombuffer(data[: min(start, len(data) // 4 * 4)], ">u4").tolist()
    count = math.prod(head[1:2])
    if head != [magic, count, *sizes]:
        raise DatasetError(
            f"The file {path} must begin with the numbers {[magic, 'count', *sizes]}, but begins "
            f"with {head}; get it again."
        )
    if len(data) != start + count * math.prod(sizes):
        raise DatasetError(
            f"The file {path} must have {start + count * math.prod(sizes)} bytes for {count} "
            f"entries, but has {len(data)}; get it again."
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(count, *sizes)

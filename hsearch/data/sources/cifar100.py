"""CIFAR-100: 20 superclasses > 100 classes of 600 images with 32 x 32 pixels.

Reads cifar-100-python.tar.gz or its folder: the pickles train, test and meta, of which nothing is
ever run. All classes have images in both train and test, so these are no split for metric learning:
the second half of the 100 classes, by their number, is the test. An image is called by its part and
its row in it, from 0: `train/00000`.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hsearch.data.layout import Found, Layout
from hsearch.data.plain_pickle import read_plain_pickle
from hsearch.data.raw_images import RawArray, as_png
from hsearch.data.records import Record
from hsearch.errors import DatasetError

HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
TOTAL = 60_000
LEVEL_NAMES = ("superclass", "class")
SHAPE = (3, 32, 32)


def records(layout: Layout) -> Found:
    """Yields the images of train and then of test, in their order."""
    meta, *parts = layout.require("meta", "train", "test", inside="cifar-100-python.tar.gz")
    names = _names(meta, "coarse_label_names"), _names(meta, "fine_label_names")
    for path in parts:
        batch = _read(path)
        pixels = _pixels(path, batch)
        coarse, fine = (
            _labels(path, batch, f"{level}_labels", len(pixels), len(known))
            for level, known in zip(("coarse", "fine"), names, strict=True)
        )
        for row, (superclass, number) in enumerate(zip(coarse, fine, strict=True)):
            yield Record(
                id=f"{path.name}/{row:05d}",
                image=partial(_png, pixels, row),
                labels=(names[0][superclass], names[1][number]),
                order=number,
            )


def _png(pixels: NDArray[np.uint8], row: int) -> bytes:
    return as_png(np.ascontiguousarray(pixels[row].reshape(SHAPE).transpose(1, 2, 0)))


def _read(path: Path) -> Mapping[str, object]:
    """The dict of a file; Python 2 wrote its keys as bytes."""
    value = read_plain_pickle(path)
    if not isinstance(value, dict):
        raise _wrong(path, "hold a dict", f"holds a {type(value).__name__}")
    return {key.decode() if isinstance(key, bytes) else str(key): value[key] for key in value}


def _names(path: Path, key: str) -> list[str]:
    names = _read(path).get(key)
    if not isinstance(names, list) or not all(isinstance(name, bytes | str) for name in names):
        raise _wrong(path, f"list names under `{key}`", "does not")
    return [name.decode() if isinstance(name, bytes) else name for name in names]


def _pixels(path: Path, batch: Mapping[str, object]) -> NDArray[np.uint8]:
    """(N, 3072) the bytes of the file as an array, which are read when they are needed."""
    array = batch.get("data")
    if not isinstance(array, RawArray):
        raise _wrong(path, "have an array under `data`", "does not")
    size = int(np.prod(SHAPE))
    if array.dtype != "u1" or array.shape != (len(array.data) // size, size):
        given = f"{array.shape} of {array.dtype} in {len(array.data)} bytes"
        raise _wrong(path, f"have rows of {size} bytes", f"has {given}")
    return np.frombuffer(array.data, np.uint8).reshape(array.shape, order=array.order)


def _labels(path: Path, batch: Mapping[str, object], key: str, count: int, known: int) -> list[int]:
    labels = batch.get(key)
    if not isinstance(labels, list) or len(labels) != count:
        found = f"has {len(labels)}" if isinstance(labels, list) else "has none"
        raise _wrong(path, f"have {count} `{key}`, one per image", found)
    for row, label in enumerate(labels):
        if not isinstance(label, int) or not 0 <= label < known:
            raise _wrong(path, f"have `{key}` of 0..{known - 1}", f"has {label!r} in row {row}")
    return labels


def _wrong(path: Path, rule: str, given: str) -> DatasetError:
    return DatasetError(f"The file {path} must {rule}, but {given}; get it again.")

"""Dynamic Metric Learning (DyML): coarse > middle > fine, and one test set per level.

Reads the folder of one of the three data sets, or its archive. train/label.csv lists the images of
train/imgs with a number per level. Vehicles and animals are tested on other images at every level:
bmk_coarse, bmk_middle and bmk_fine each have query.csv and gallery.csv, which list the images of
query/ and gallery/ with their one label. Products are tested on one set of images with the labels
of all levels, mini-bmk_all_in_one; here it becomes three sets. In the official files no line end
parts the header from the first image.

An image of a test set has one label, which stands at all levels of its path. A remark in the
owners' code says that red and blue are swapped in the images; they are kept as they are.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from hsearch.data.layout import Found, Layout
from hsearch.data.records import LEVEL_TESTS, Note, Record
from hsearch.data.text_files import is_number, read_lines
from hsearch.errors import DatasetError

HOME = "https://github.com/SupetZYK/DynamicMetricLearning"
LEVEL_NAMES = ("coarse", "middle", "fine")
VARIANTS: dict[str, dict[str, object]] = {
    "dyml-vehicle": {},
    "dyml-animal": {},
    "dyml-product": {"one_set": True},
}
FOLDERS = {name: name.replace("-", "_") for name in VARIANTS}
TESTS = dict(zip(LEVEL_NAMES, LEVEL_TESTS, strict=True))
TRAIN = "train/label.csv"
ONE_SET = "mini-bmk_all_in_one/label.csv"
PATH_COLUMNS = tuple(f"{level}_id" for level in LEVEL_NAMES)


def records(layout: Layout, one_set: bool = False) -> Found:
    """Yields the training images, then the test sets from coarse to fine.

    Args:
        layout: The official files.
        one_set: Whether all levels are tested on the same images.
    """
    parts = [f"bmk_{level}/{part}.csv" for level in LEVEL_NAMES for part in ("query", "gallery")]
    own, *others = sorted(FOLDERS.values(), key=lambda folder: folder != FOLDERS[layout.name])
    train, *tests = layout.require(
        *(TRAIN, *([ONE_SET] if one_set else parts)), inside=f"{own}/", own=own, others=others
    )
    for name, numbers in _listed(train, PATH_COLUMNS):
        labels = (f"{level} {n}" for level, n in zip(LEVEL_NAMES, numbers, strict=True))
        yield Record(
            id=f"train/{name}",
            image=train.parent / "imgs" / name,
            labels=tuple(labels),
            split="train",
            order=numbers[-1],
        )
    yield from _one_set(tests[0]) if one_set else _own_sets(tests)


def _own_sets(files: list[Path]) -> Found:
    """Yields the images of a test set per level, each either a query or in the gallery."""
    for file in files:
        part, level = file.stem, file.parent.name.removeprefix("bmk_")
        for name, (number,) in _listed(file, ("labels",)):
            yield Record(
                id=f"{file.parent.name}/{part}/{name}",
                image=file.parent / part / name,
                labels=_test_labels(level, number),
                split=TESTS[level],
                is_query=part == "query",
                is_gallery=part == "gallery",
                order=number,
            )


def _one_set(file: Path) -> Found:
    """Yields every image once per level; each queries all others of its level."""
    for name, numbers in _listed(file, PATH_COLUMNS):
        for level, number in zip(LEVEL_NAMES, numbers, strict=True):
            yield Record(
                id=f"{TESTS[level]}/{name}",
                image=file.parent / "imgs" / name,
                labels=_test_labels(level, number),
                split=TESTS[level],
                order=number,
            )
    yield Note("every test image is in the store three times, with its label of each level")


def _test_labels(level: str, number: int) -> tuple[str, ...]:
    """The name of the set keeps its classes apart from those of training and of other sets."""
    return (f"{TESTS[level]} {number}",) * len(LEVEL_NAMES)


def _listed(file: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, list[int]]]:
    """Yields the name and the labels of every image of a list."""
    header = ("fname", *columns)
    for line, (text,) in read_lines(file, columns=1):
        if line == 1:
            begin = re.match(r"\s*,\s*".join(header), text)
            if begin is None:
                raise DatasetError(
                    f"The list {file} must begin with '{', '.join(header)}', but begins with "
                    f"'{text[:40]}'; get it from its official home again."
                )
            text = text[begin.end() :]
        if text:
            name, *numbers = (cell.strip() for cell in text.split(","))
            if len(numbers) != len(columns) or not all(map(is_number, numbers)):
                raise DatasetError(
                    f"Line {line} of {file} must have an image and {len(columns)} numbers, parted "
                    f"by commas, but has '{text}'."
                )
            yield name, [int(number) for number in numbers]

"""Caltech-UCSD Birds 200-2011: 200 species, of which the first 100 are for training.

Reads CUB_200_2011.tgz or its folder: images.txt, image_class_labels.txt, classes.txt and images/.
"""

from collections.abc import Iterator
from pathlib import Path

from hsearch.data.layout import Layout, is_inside, read_lines
from hsearch.data.records import Note, Problem, Record
from hsearch.errors import DatasetError

HOME = "https://www.vision.caltech.edu/datasets/cub_200_2011/"
LEVEL_NAMES = ("species",)
TRAIN_CLASSES = 100


def records(layout: Layout) -> Iterator[Record | Problem | Note]:
    """Yields the images in the order of images.txt."""
    listed, labels, classes = layout.require(
        "images.txt", "image_class_labels.txt", "classes.txt", inside="CUB_200_2011.tgz"
    )
    names = {number: name for _, (number, name) in read_lines(classes, columns=2)}
    class_of = {image: number for _, (image, number) in read_lines(labels, columns=2)}
    folder = listed.parent / "images"
    for line, (image, path) in read_lines(listed, columns=2):
        number = class_of.get(image)
        if number not in names:
            raise DatasetError(
                f"Every image needs a class of {classes}, but image {image} (line {line} of "
                f"{listed}) has {number or 'none'}."
            )
        if not is_inside(folder, path):
            yield Problem(path, "path out of the data's folder")
            continue
        yield Record(
            id=path,
            image=folder / path,
            labels=(_species(names[number]),),
            split="train" if int(number) <= TRAIN_CLASSES else "test",
            order=int(number),
        )
    yield from _not_listed(folder, {path for _, (_, path) in read_lines(listed, columns=2)})


def _species(name: str) -> str:
    """`001.Black_footed_Albatross` is the Black footed Albatross."""
    return name.partition(".")[2].replace("_", " ") or name


def _not_listed(folder: Path, listed: set[str]) -> Iterator[Note]:
    present = {path.relative_to(folder).as_posix() for path in folder.glob("*/*")}
    if others := present - listed:
        yield Note(f"left out {len(others)} files that are not listed, such as {min(others)}")

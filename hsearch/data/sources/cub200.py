"""Caltech-UCSD Birds 200-2011: 200 species, of which the first 100 are for training.

Reads CUB_200_2011.tgz or its folder: images.txt, image_class_labels.txt, classes.txt and images/.
`cub200-family` adds the 13 orders and 37 families of cub200_families.csv, which is part of hsearch;
the table of 38 that others use has the Red legged Kittiwake, a gull, alone beside the kingfishers.
`cub200-cropped` keeps the part of an image inside its box of bounding_boxes.txt.
"""

import csv
from pathlib import Path

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Box, Record, box_from_one
from hsearch.data.text_files import is_number, read_lines
from hsearch.errors import DatasetError

HOME = "https://www.vision.caltech.edu/datasets/cub_200_2011/"
TOTAL = 11_788
LEVEL_NAMES = ("species",)
VARIANTS = {
    "cub200": {},
    "cub200-family": {"levels": ("order", "family", "species")},
    "cub200-cropped": {"cropped": True},
}
TRAIN_CLASSES = 100
_FAMILIES = Path(__file__).with_name("cub200_families.csv")


def records(layout: Layout, levels: tuple[str, ...] = LEVEL_NAMES, cropped: bool = False) -> Found:
    """Yields the images in the order of images.txt."""
    files = ["images.txt", "image_class_labels.txt", "classes.txt", "images"]
    files += ["bounding_boxes.txt"] * cropped
    listed, labels, classes, images, *boxes = layout.require(*files, inside="CUB_200_2011.tgz")
    paths = _label_paths(classes, levels)
    class_of = {image: number for _, (image, number) in read_lines(labels, columns=2)}
    box_of = {image: box for path in boxes for image, box in _boxes(path).items()}
    for line, (image, path) in read_lines(listed, columns=2):
        number = class_of.get(image)
        if number not in paths:
            raise DatasetError(
                f"Every image needs a class of {classes}, but image {image} (line {line} of "
                f"{listed}) has {number or 'none'}."
            )
        if boxes and image not in box_of:
            raise DatasetError(
                f"Every image needs a box in {boxes[0]}, but image {image} (line {line} of "
                f"{listed}) has none."
            )
        yield Record(
            id=path,
            image=images / path,
            labels=paths[number],
            split="train" if int(number) <= TRAIN_CLASSES else "test",
            order=int(number),
            box=box_of.get(image),
        )


def _label_paths(classes: Path, levels: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The label path of every class number."""
    with _FAMILIES.open(encoding="utf-8", newline="") as file:
        groups = {row["class"]: row for row in csv.DictReader(file)}
    paths = {}
    for line, (number, name) in read_lines(classes, columns=2):
        if not is_number(number):
            raise DatasetError(
                f"Line {line} of {classes} must begin with the number of a class, but has "
                f"'{number}'."
            )
        if len(levels) > 1 and name not in groups:
            raise DatasetError(
                f"The families of the official classes are known, but line {line} of {classes} has "
                f"'{name}'; prepare 'cub200', which needs no families."
            )
        paths[number] = (*(groups[name][level] for level in levels[:-1]), _species(name))
    return paths


def _boxes(path: Path) -> dict[str, Box]:
    """The box of every image: left, top, width and height in pixels."""
    return {
        image: box_from_one(numbers, f"line {line} of {path}", sized=True)
        for line, (image, *numbers) in read_lines(path, columns=5)
    }


def _species(name: str) -> str:
    """`001.Black_footed_Albatross` is the Black footed Albatross."""
    return name.partition(".")[2].replace("_", " ") or name

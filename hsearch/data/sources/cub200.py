"""Caltech-UCSD Birds 200-2011: 200 species, of which the first 100 are for training.

Reads CUB_200_2011.tgz or its folder: images.txt, image_class_labels.txt, classes.txt and images/.
"""

from hsearch.data.layout import Found, Layout, read_lines
from hsearch.data.records import Record
from hsearch.errors import DatasetError

HOME = "https://www.vision.caltech.edu/datasets/cub_200_2011/"
LEVEL_NAMES = ("species",)
TRAIN_CLASSES = 100


def records(layout: Layout) -> Found:
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
        yield Record(
            id=path,
            image=folder / path,
            labels=(_species(names[number]),),
            split="train" if int(number) <= TRAIN_CLASSES else "test",
            order=int(number),
        )


def _species(name: str) -> str:
    """`001.Black_footed_Albatross` is the Black footed Albatross."""
    return name.partition(".")[2].replace("_", " ") or name

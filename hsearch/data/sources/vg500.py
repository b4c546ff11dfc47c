"""Visual Genome 500: the 500 most common kinds of objects, several in an image.

Reads train_list_500.txt, test_list_500.txt (a file name per line) and
vg_category_500_labels_index.json (the numbers, from 0, of the kinds in each image) of SSGRL, and
Visual Genome's images in VG_100K/ and VG_100K_2/, or all in the first. SSGRL gives no names
of the kinds, so that tags are their numbers.
"""

import os
from pathlib import Path

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Record
from hsearch.data.text_files import read_json, read_lines
from hsearch.errors import DatasetError

HOME = "https://github.com/HCPLab-SYSU/SSGRL"
KINDS = 500


def records(layout: Layout) -> Found:
    """Yields the images in the order of the two lists."""
    train, test, index, first = layout.require(
        "train_list_500.txt|data/VG/train_list_500.txt",
        "test_list_500.txt|data/VG/test_list_500.txt",
        "vg_category_500_labels_index.json|data/VG/vg_category_500_labels_index.json",
        "VG_100K",
        inside="data/VG of SSGRL, images.zip and images2.zip",
        homes={"VG_100K": "https://visualgenome.org"},
    )
    second = layout.find("VG_100K_2", inside="images2.zip") or first
    kinds = read_json(index)
    for listed, split in ((train, "train"), (test, "test")):
        for line, (name,) in read_lines(listed, columns=1):
            folder = second if os.path.exists(second / name) else first
            tags = _tags(kinds.get(name), f"{name} (line {line} of {listed})", index)
            yield Record(name, folder / name, labels=(), split=split, tags=tags)


def _tags(numbers: object, where: str, index: Path) -> tuple[str, ...]:
    """Returns numbers as text that sorts like them."""
    if not isinstance(numbers, list) or not all(
        type(number) is int and 0 <= number < KINDS for number in numbers
    ):
        given = "none" if numbers is None else f"{numbers!s:.60}"
        raise DatasetError(
            f"Every image needs a list of numbers from 0 to {KINDS - 1} in {index}, but {where} "
            f"has {given}; get the files from their official home again."
        )
    return tuple(f"{number:03d}" for number in numbers)

"""PASCAL VOC 2007: 20 kinds of objects, several in an image; 5,011 for training, 4,952 for test.

Reads VOCtrainval_06-Nov-2007.tar and VOCtest_06-Nov-2007.tar, or their common folder
VOCdevkit/VOC2007: ImageSets/Main/trainval.txt and test.txt, Annotations/ and JPEGImages/. An
image's tags are the classes of its objects; those marked as difficult do not count, as in SSGRL.
An image with no other ones stays, without tags (the official files have none such).
"""

import os
from pathlib import Path
from xml.etree import ElementTree

from hsearch.data.layout import OUTSIDE, Found, Layout
from hsearch.data.records import Problem, Record
from hsearch.data.text_files import read_lines
from hsearch.errors import DatasetError

HOME = "http://host.robots.ox.ac.uk/pascal/VOC/voc2007/"
TOTAL = 5_011 + 4_952
ARCHIVES = "VOCtrainval_06-Nov-2007.tar and VOCtest_06-Nov-2007.tar"
SPLITS = {"trainval": "train", "test": "test"}
CLASSES = {
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
}


def records(layout: Layout) -> Found:
    """Yields the images in the order of the two lists."""
    files = (f"ImageSets/Main/{part}.txt" for part in SPLITS)
    lists = layout.require(
        *(f"VOCdevkit/VOC2007/{file}|VOC2007/{file}|{file}" for file in files), inside=ARCHIVES
    )
    for listed, split in zip(lists, SPLITS.values(), strict=True):
        top = listed.parents[2]  # each archive has its own lists, images and annotations
        missing = [each for each in ("Annotations", "JPEGImages") if not (top / each).is_dir()]
        if missing:
            raise layout.lack(missing, ARCHIVES)
        for _, (name,) in read_lines(listed, columns=1):
            annotation = top / "Annotations" / f"{name}.xml"
            if not layout.holds(annotation):
                yield Problem(name, OUTSIDE)
                continue
            if not os.path.isfile(annotation):
                yield Problem(name, "without annotation")
                continue
            image = top / "JPEGImages" / f"{name}.jpg"
            yield Record(image.name, image, labels=(), split=split, tags=_tags(annotation))


def _tags(path: Path) -> tuple[str, ...]:
    try:
        parser = ElementTree.XMLParser(target=_NoDoctype())
        root = ElementTree.fromstring(path.read_bytes(), parser)
    except ElementTree.ParseError as error:
        raise DatasetError(
            f"The file {path} must be XML, but is not ({error}); get it from its official home "
            "again."
        ) from None
    except _DoctypeError:
        raise DatasetError(
            f"The file {path} must be XML without a DOCTYPE, which could declare entities, but has "
            "one; get it from its official home again."
        ) from None
    objects = root.findall("object")
    names = {
        each.findtext("name", "") for each in objects if each.findtext("difficult", "0") != "1"
    }
    if names - CLASSES:
        raise DatasetError(
            f"Every object of {path} must be of the 20 classes of VOC 2007, but one is "
            f"'{min(names - CLASSES)}'; get the file from its official home again."
        )
    return tuple(names)


class _DoctypeError(ValueError):
    pass


class _NoDoctype(ElementTree.TreeBuilder):
    def doctype(self, *_: str | None) -> None:
        """Is called before any entity is declared."""
        raise _DoctypeError

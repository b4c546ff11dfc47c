"""DeepFashion In-Shop Clothes Retrieval: category > item; queries and gallery of its own.

Reads the In-shop Clothes Retrieval Benchmark's folder: list_eval_partition.txt (in Eval/) and the
images, unpacked from img.zip to img/ (in Img/). Items of the query and gallery parts are tested.
`inshop-cropped` keeps the part of an image inside its box of list_bbox_inshop.txt (in Anno/).
"""

from collections.abc import Iterator
from pathlib import Path

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Box, Note, Record, box_from_one
from hsearch.data.text_files import is_number, read_lines
from hsearch.errors import DatasetError

HOME = "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html"
TOTAL = 52_712
LEVEL_NAMES = ("category", "item")
VARIANTS = {"inshop": {}, "inshop-cropped": {"cropped": True}}
PARTS = ("train", "query", "gallery")
PARTITION_HEADER = ["image_name", "item_id", "evaluation_status"]
BOX_HEADER = ["image_name", "clothes_type", "pose_type", "x_1", "y_1", "x_2", "y_2"]


def records(layout: Layout, cropped: bool = False) -> Found:
    """Yields the images in the order of the list; the number of an item sorts the classes."""
    files = ["list_eval_partition.txt|Eval/list_eval_partition.txt", "img|Img/img"]
    files += ["list_bbox_inshop.txt|Anno/list_bbox_inshop.txt"] * cropped
    partition, images, *boxes = layout.require(*files, inside="Eval/, Img/img.zip and Anno/")
    box_of = {image: box for path in boxes for image, box in _boxes(path).items()}
    categories: dict[str, str] = {}
    elsewhere = 0
    for number, (path, item, part) in _rows(partition, PARTITION_HEADER):
        relative = path.removeprefix("img/")
        category = _category(relative)
        if part not in PARTS or not category or not is_number(item.removeprefix("id_")):
            raise DatasetError(
                f"Line {number} of {partition} must be like 'img/MEN/Denim/id_00000080/1_front.jpg "
                f"id_00000080 train' (or query, gallery), but is '{path} {item} {part}'."
            )
        if boxes and path not in box_of:
            raise DatasetError(f"Every image needs a box, but {path} has none in {boxes[0]}.")
        elsewhere += categories.setdefault(item, category) != category
        yield Record(
            id=path,
            image=images / relative,
            labels=(categories[item], item),
            split="train" if part == "train" else "test",
            is_query=part != "gallery",
            is_gallery=part != "query",
            order=int(item.removeprefix("id_")),
            box=box_of.get(path),
        )
    if elsewhere:
        yield Note(
            f"items in several categories count in the first one listed ({elsewhere} images)"
        )


def _boxes(path: Path) -> dict[str, Box]:
    return {
        image: box_from_one(corners, f"line {number} of {path}")
        for number, (image, _, _, *corners) in _rows(path, BOX_HEADER)
    }


def _rows(path: Path, header: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields the lines after the number of images and the header."""
    lines = read_lines(path)
    _, count = next(lines, (1, []))
    _, given = next(lines, (2, []))
    if not (len(count) == 1 and is_number(count[0])) or given != header:
        raise DatasetError(
            f"The file {path} must begin with the number of images and the line "
            f"'{' '.join(header)}', but begins with '{' '.join(count)}' and '{' '.join(given)}'."
        )
    rows = 0
    for number, words in lines:
        if len(words) != len(header):
            raise DatasetError(
                f"Line {number} of {path} must have {len(header)} columns, but has {len(words)}."
            )
        rows += 1
        yield number, words
    if rows < int(count[0]):
        raise DatasetError(
            f"The file {path} must list {count[0]} images, as its first line says, but lists "
            f"{rows}; get it from its official home again."
        )


def _category(relative: str) -> str:
    """`WOMEN/Blouses_Shirts/id_00000001/02_1_front.jpg` is of WOMEN Blouses_Shirts."""
    folders = relative.split("/")[:-1]
    return " ".join(folders[:2]) if len(folders) > 2 else ""

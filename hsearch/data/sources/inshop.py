"""DeepFashion In-Shop Clothes Retrieval: category > item; queries and gallery of its own.

Reads the In-shop Clothes Retrieval Benchmark's folder: list_eval_partition.txt (in Eval/) and the
images, unpacked from img.zip to img/ (in Img/). Items of the query and gallery parts are tested.
"""

from collections.abc import Iterator
from pathlib import Path

from hsearch.data.layout import Found, Layout, read_lines
from hsearch.data.records import Record
from hsearch.errors import DatasetError

HOME = "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html"
LEVEL_NAMES = ("category", "item")
PARTS = ("train", "query", "gallery")


def records(layout: Layout) -> Found:
    """Yields the images in the order of the list; the number of an item sorts the classes."""
    (partition,) = layout.require(
        "list_eval_partition.txt|Eval/list_eval_partition.txt",
        inside="Eval/list_eval_partition.txt",
    )
    (images,) = layout.require("img|Img/img", inside="Img/img.zip")
    for number, (path, item, part) in _lines(partition):
        if part not in PARTS or not item.removeprefix("id_").isdecimal():
            raise DatasetError(
                f"Line {number} of {partition} must have an image, an item such as id_00000001 and "
                f"one of {', '.join(PARTS)}, but has '{path} {item} {part}'."
            )
        relative = path.removeprefix("img/")
        yield Record(
            id=path,
            image=images / relative,
            labels=(_category(relative), item),
            split="train" if part == "train" else "test",
            is_query=part != "gallery",
            is_gallery=part != "query",
            order=int(item.removeprefix("id_")),
        )


def _lines(partition: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the lines after the number of images and the header."""
    for number, words in read_lines(partition, columns=None):
        if number > 2:
            if len(words) != 3:
                raise DatasetError(
                    f"Line {number} of {partition} must have 3 columns, but has {len(words)}."
                )
            yield number, words


def _category(relative: str) -> str:
    """`WOMEN/Blouses_Shirts/id_00000001/02_1_front.jpg` is of WOMEN Blouses_Shirts."""
    return " ".join(relative.split("/")[:2])

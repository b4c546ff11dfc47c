"""Microsoft COCO: 80 kinds of objects, several in an image.

Reads annotations/instances_train2014.json and instances_val2014.json with the folders train2014/
and val2014/ (test), or the same of 2017. An image's tags are the categories of its objects, crowds
included; images without objects are left out, which makes the 82,081 + 40,137 of the papers.
"""

from pathlib import Path

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Note, Record
from hsearch.data.text_files import read_json
from hsearch.errors import DatasetError

HOME = "https://cocodataset.org/#download"
TOTAL = 82_081 + 40_137
YEARS = (2014, 2017)
SPLITS = {"train": "train", "val": "test"}


def records(layout: Layout) -> Found:
    """Yields the images in the order of the JSON files."""
    # Both files are of one year: train2017 holds most images of val2014.
    train = (f"annotations/instances_train{year}.json" for year in YEARS)
    archives = ", ".join(f"annotations_trainval{year}.zip" for year in YEARS)
    found = layout.find(*train, inside=archives, everywhere=True)
    year = found.stem[-4:] if found else "2014"
    if year != "2014":
        yield Note(f"this is COCO {year}; published multi-label results are of 2014")
    parts = [f"{part}{year}" for part in SPLITS]
    needed = [*(f"annotations/instances_{part}.json" for part in parts), *parts]
    paths = layout.require(
        *needed, inside=f"annotations_trainval{year}.zip, train{year}.zip and val{year}.zip"
    )
    for path, folder, split in zip(paths[:2], paths[2:], SPLITS.values(), strict=True):
        tags = _tags(path)
        for name, own in tags.items():
            if own:
                yield Record(name, folder / name, labels=(), split=split, tags=tuple(own))
        empty = tuple(folder / name for name, own in tags.items() if not own)
        if empty:
            yield Note(f"left out {len(empty)} images without objects of {path.name}", empty)


def _tags(path: Path) -> dict[str, set[str]]:
    """Returns the categories in each image by the name of its file."""
    content = read_json(path, without="segmentation")
    try:
        names = {int(each["id"]): str(each["name"]) for each in content["categories"]}
        files = {int(each["id"]): str(each["file_name"]) for each in content["images"]}
        objects = [
            (each["id"], int(each["image_id"]), int(each["category_id"]))
            for each in content["annotations"]
        ]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DatasetError(
            f"The file {path} must hold categories, images and annotations as COCO has them, but "
            f"one is not ({type(error).__name__}: {error}); get it from its official home again."
        ) from None
    tags: dict[str, set[str]] = {file: set() for file in files.values()}
    for number, image, category in objects:
        if image not in files or category not in names:
            raise DatasetError(
                f"Every annotation must be of an image and a category of its file, but annotation "
                f"{number} of {path} has image {image} and category {category}; get the file from "
                "its official home again."
            )
        tags[files[image]].add(names[category])
    return tags

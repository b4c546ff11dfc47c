"""Stanford Online Products: 12 categories > 22,634 products; its own train and test products.

Reads Stanford_Online_Products.zip or its folder: Ebay_train.txt, Ebay_test.txt and the folders of
images, one per category.
"""

from pathlib import Path

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Record
from hsearch.data.text_files import is_number, read_lines
from hsearch.errors import DatasetError

HOME = "https://cvgl.stanford.edu/projects/lifted_struct/"
TOTAL = 120_053
LEVEL_NAMES = ("category", "product")
ARCHIVE = "Stanford_Online_Products.zip"
HEADER = ["image_id", "class_id", "super_class_id", "path"]


def records(layout: Layout) -> Found:
    """Yields the images in the order of the two lists; classes are sorted by their number."""
    lists = layout.require("Ebay_train.txt", "Ebay_test.txt", inside=ARCHIVE)
    categories: dict[str, str] = {}
    first: dict[str, tuple[str, str]] = {}
    for split, path in zip(("train", "test"), lists, strict=True):
        rows = _rows(path)
        folders = sorted({image.partition("/")[0] for *_, image in rows})
        missing = [folder for folder in folders if not (path.parent / folder).is_dir()]
        if missing:
            raise layout.lack(missing, ARCHIVE)
        for line, product, number, image in rows:
            category = image.partition("/")[0].removesuffix("_final")
            if categories.setdefault(number, category) != category:
                raise DatasetError(
                    f"Every super_class_id must be of one category, but {number} is "
                    f"{categories[number]}, and line {line} of {path} has it for {category}; get "
                    "the official files."
                )
            if first.setdefault(product, (split, number)) != (split, number):
                raise DatasetError(
                    f"Every product must be in one list and one category, but product {product} "
                    f"of line {line} of {path} ({category}) is in the {first[product][0]} list as "
                    f"{categories[first[product][1]]}; get the official files."
                )
            labels = (category, product)
            yield Record(image, path.parent / image, labels, split, order=int(product))


def _rows(path: Path) -> list[tuple[int, str, str, str]]:
    """The number of each line, the numbers of product and category, and the image."""
    lines = read_lines(path, columns=4)
    number, header = next(lines, (1, []))
    if header != HEADER:
        raise DatasetError(
            f"Line {number} of {path} must be '{' '.join(HEADER)}', but is '{' '.join(header)}'."
        )
    rows = []
    for line, (_, product, category, image) in lines:
        for name, given in (("class_id", product), ("super_class_id", category)):
            if not is_number(given):
                raise DatasetError(
                    f"The {name} of line {line} of {path} must be a number, but is '{given:.40}'."
                )
        rows.append((line, product, category, image))
    return rows

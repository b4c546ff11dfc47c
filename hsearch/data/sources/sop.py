"""Stanford Online Products: 12 categories > 22,634 products; its own train and test products.

Reads Stanford_Online_Products.zip or its folder: Ebay_train.txt, Ebay_test.txt and the folders of
images, one per category.
"""

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Record
from hsearch.data.text_files import read_lines
from hsearch.errors import DatasetError

HOME = "https://cvgl.stanford.edu/projects/lifted_struct/"
LEVEL_NAMES = ("category", "product")
HEADER = ["image_id", "class_id", "super_class_id", "path"]


def records(layout: Layout) -> Found:
    """Yields the images in the order of the two lists; classes are sorted by their number."""
    lists = layout.require("Ebay_train.txt", "Ebay_test.txt", inside="Stanford_Online_Products.zip")
    for split, path in zip(("train", "test"), lists, strict=True):
        lines = read_lines(path, columns=4)
        number, header = next(lines, (1, []))
        if header != HEADER:
            raise DatasetError(
                f"Line {number} of {path} must be '{' '.join(HEADER)}', but is "
                f"'{' '.join(header)}'."
            )
        for number, (_, product, _, image) in lines:
            if not product.isdecimal():
                raise DatasetError(
                    f"The class_id of line {number} of {path} must be a number, but is '{product}'."
                )
            yield Record(
                id=image,
                image=path.parent / image,
                labels=(image.partition("/")[0].removesuffix("_final"), product),
                split=split,
                order=int(product),
            )

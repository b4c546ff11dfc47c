"""DeepFashion In-Shop by category > product > variation; 9 of 17 categories trained on (HiMulCon).

Reads the same files as `inshop`: list_eval_partition.txt and img/. The category is the folder below
MEN or WOMEN, the product the item, and the variation, such as a colour, the first number of the
image's name. Products that lie in several categories are left out.

Of the seen categories the official training images are for training and the others are held out.
All images of the unseen categories are for tests: queries search the gallery, and the official
training images, which do neither, are what a classifier of these categories can learn from.
HiMulCon does not name its seen and unseen categories. Here, as for `modelnet40`, whose numbers give
a hint, those that come first in the alphabet are unseen.
"""

from collections import defaultdict
from dataclasses import replace

from hsearch.data.layout import Found, Layout
from hsearch.data.records import SEEN, Note, Record
from hsearch.data.sources import inshop
from hsearch.errors import DatasetError

HOME = inshop.HOME
LEVEL_NAMES = ("category", "product", "variation")
VARIANTS: dict[str, dict[str, object]] = {"deepfashion-category": {}}
UNSEEN = (
    *("Blouses_Shirts", "Cardigans", "Denim", "Dresses"),
    *("Graphic_Tees", "Jackets_Coats", "Jackets_Vests", "Leggings"),
)
TRAINED = (
    *("Pants", "Rompers_Jumpsuits", "Shirts_Polos", "Shorts", "Skirts"),
    *("Suiting", "Sweaters", "Sweatshirts_Hoodies", "Tees_Tanks"),
)


def records(layout: Layout) -> Found:
    """Yields the images in the order of the list."""
    found = list(inshop.records(layout))
    placed = [_placed(item) if isinstance(item, Record) else item for item in found]
    categories: dict[str, set[str]] = defaultdict(set)
    for item in placed:
        if isinstance(item, Record):
            categories[item.labels[1]].add(item.labels[0])
    several = {product for product, names in categories.items() if len(names) > 1}
    for item in placed:
        if not (isinstance(item, Record) and item.labels[1] in several):
            yield item
    if several:
        yield Note(f"left out {len(several)} products that lie in several categories")
    yield Note(f"HiMulCon does not name its seen categories; trained on are {', '.join(TRAINED)}")


def _placed(record: Record) -> Record:
    """The record of `inshop` with the labels and the split of this protocol."""
    # img / WOMEN / Blouses_Shirts / id_00000001 / 02_1_front.jpg
    parts = record.id.split("/")
    variation, _, view = parts[-1].partition("_")
    if len(parts) != 5 or parts[2] not in (*UNSEEN, *TRAINED) or not (variation and view):
        raise DatasetError(
            "An image must lie in one of the 17 categories, such as img/WOMEN/Denim/id_00000055/"
            f"04_1_front.jpg, but list_eval_partition.txt has {record.id}."
        )
    category, in_training = parts[2], record.split == "train"
    labels = category, record.labels[-1], variation
    if category in TRAINED:
        return replace(record, labels=labels, split="train" if in_training else SEEN)
    return replace(
        record,
        labels=labels,
        split="test",
        is_query=record.is_query and not in_training,
        is_gallery=record.is_gallery and not in_training,
    )

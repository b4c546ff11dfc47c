"""DeepFashion by category: category > product > variation; 9 of 17 trained on (HiMulCon).

Reads the same files as `inshop`: list_eval_partition.txt and img/. The category is the folder below
MEN or WOMEN, the product the item, and the variation, such as a colour, the first number of the
image's name. Products that lie in several categories are left out.

The official training images of seen categories are for training. Of unseen categories queries
search the gallery; their training images do neither. The other images of seen categories show
products that are never trained on, so they are left out. With `deepfashion-category-flat`, whose
only labels are the categories, they are held out, and the gallery of unseen categories, from which
a classifier learns, has the training images as well.

HiMulCon does not name its seen and unseen categories. Here, as for `modelnet40`, whose numbers give
a hint, those that come first in the alphabet are unseen.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from hsearch.data.layout import Found, Layout
from hsearch.data.records import SEEN, Note, Record
from hsearch.data.sources import inshop
from hsearch.errors import DatasetError

HOME = inshop.HOME
LEVEL_NAMES: tuple[str, ...] = ("category", "product", "variation")
VARIANTS = {"deepfashion-category": {}, "deepfashion-category-flat": {"levels": ("category",)}}
UNSEEN = (
    *("Blouses_Shirts", "Cardigans", "Denim", "Dresses"),
    *("Graphic_Tees", "Jackets_Coats", "Jackets_Vests", "Leggings"),
)
TRAINED = (
    *("Pants", "Rompers_Jumpsuits", "Shirts_Polos", "Shorts", "Skirts"),
    *("Suiting", "Sweaters", "Sweatshirts_Hoodies", "Tees_Tanks"),
)


def records(layout: Layout, levels: tuple[str, ...] = LEVEL_NAMES) -> Found:
    """Yields the images in the order of the list.

    Args:
        layout: The official files.
        levels: All, or the category alone.
    """
    flat = len(levels) == 1
    found = [_labelled(item) for item in inshop.records(layout) if isinstance(item, Record)]
    several = _in_several_categories(found)
    left_out = 0
    for record in found:
        if record.labels[1] in several:
            continue
        if record.labels[0] in UNSEEN:
            yield _tested(record, flat)
        elif flat:
            split = "train" if record.split == "train" else SEEN
            yield replace(record, labels=record.labels[:1], split=split, order=0)
        elif record.split == "train":
            yield record
        else:
            left_out += 1
    if left_out:
        yield Note(f"left out {left_out} images of test products of the categories trained on")
    if several:
        yield Note(f"left out {len(several)} products that lie in several categories")
    yield Note(f"HiMulCon does not name its seen categories; trained on are {', '.join(TRAINED)}")


def _labelled(record: Record) -> Record:
    """The record of `inshop` with its category, product and variation."""
    # img / WOMEN / Blouses_Shirts / id_00000001 / 02_1_front.jpg
    parts = record.id.split("/")
    variation, _, view = parts[-1].partition("_")
    if len(parts) != 5 or parts[2] not in (*UNSEEN, *TRAINED) or not (variation and view):
        raise DatasetError(
            "An image must lie in one of the 17 categories, such as img/WOMEN/Denim/id_00000055/"
            f"04_1_front.jpg, but list_eval_partition.txt has {record.id}."
        )
    return replace(record, labels=(parts[2], record.labels[-1], variation))


def _in_several_categories(found: Iterable[Record]) -> set[str]:
    categories: dict[str, set[str]] = defaultdict(set)
    for record in found:
        categories[record.labels[1]].add(record.labels[0])
    return {product for product, names in categories.items() if len(names) > 1}


def _tested(record: Record, flat: bool) -> Record:
    """The record of an image of an unseen category."""
    in_training = record.split == "train"
    return replace(
        record,
        labels=record.labels[:1] if flat else record.labels,
        split="test",
        is_query=record.is_query and not in_training,
        is_gallery=record.is_gallery and (flat or not in_training),
        order=0 if flat else record.order,
    )

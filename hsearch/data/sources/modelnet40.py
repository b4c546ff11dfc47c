"""ModelNet40: category > object, in views; 22 categories trained on, 18 unseen (HiMulCon).

Reads the 12 rendered views per object of Multi-view CNN, modelnet40v1png.tar or modelnet40v1.tar or
their folder: CATEGORY/train and CATEGORY/test with files such as bowl_0065_001.png. The newer
renderings of modelnet40_images_new_12x (bowl_0065.obj.shaded_v001.png) lie in the same folders.

All views of unseen categories are for tests. Of the training objects of seen categories every fifth
view is held out: as many as HiMulCon validates on, which does not say which. Test objects of seen
categories are never trained on, so they are left out; `modelnet40-flat`, whose only labels are the
categories, holds them out instead.

HiMulCon counts the images of seen and of unseen categories but names neither. Its numbers fit
modelnet40v1 (80 training and 20 test objects per category, but 64 training bowls and 79 cups) only
if bowls and cups are unseen. Here the first 18 categories of the alphabet are unseen, which fits.
"""

import re
from pathlib import Path

from hsearch.data.images import SUFFIXES
from hsearch.data.layout import Found, Layout
from hsearch.data.records import SEEN, Note, Problem, Record
from hsearch.errors import DatasetError

HOME = "https://github.com/suhangpro/mvcnn"
LEVEL_NAMES: tuple[str, ...] = ("category", "object")
VARIANTS = {"modelnet40": {}, "modelnet40-flat": {"levels": ("category",)}}
UNSEEN = (
    *("airplane", "bathtub", "bed", "bench", "bookshelf", "bottle", "bowl", "car", "chair"),
    *("cone", "cup", "curtain", "desk", "door", "dresser", "flower_pot", "glass_box", "guitar"),
)
TRAINED = (
    *("keyboard", "lamp", "laptop", "mantel", "monitor", "night_stand", "person", "piano"),
    *("plant", "radio", "range_hood", "sink", "sofa", "stairs", "stool", "table", "tent"),
    *("toilet", "tv_stand", "vase", "wardrobe", "xbox"),
)
VIEW = re.compile(r"(?P<object>.+_\d+)(_|\.obj\.shaded_v)\d+\.\w+")


def records(layout: Layout, levels: tuple[str, ...] = LEVEL_NAMES) -> Found:
    """Yields the views, sorted by category, part and file name.

    Args:
        layout: The official files.
        levels: All, or the category alone.
    """
    flat = len(levels) == 1
    categories = (*UNSEEN, *TRAINED)
    folders = layout.require(*categories, inside="modelnet40v1png.tar")
    left_out = 0
    for number, folder in enumerate(folders):
        for part in ("train", "test"):
            for place, view in enumerate(_views(folder / part)):
                where = f"{folder.name}/{part}/{view.name}"
                match = VIEW.fullmatch(view.name)
                split = _split(folder.name, part, place, flat)
                if match is None:
                    yield Problem(where, "file name without the number of a view")
                elif split:
                    labels = (folder.name,) if flat else (folder.name, match["object"])
                    yield Record(id=where, image=view, labels=labels, split=split, order=number)
                else:
                    left_out += 1
    if left_out:
        yield Note(f"left out {left_out} views of test objects of the categories trained on")
    yield Note(
        "HiMulCon does not name its seen categories; trained on are the last 22 of the alphabet"
    )


def _views(folder: Path) -> list[Path]:
    """The images of a folder, of which there must be some."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    views = [path for path in found if path.name.lower().endswith(SUFFIXES)]
    if not views:
        raise DatasetError(
            f"Every category needs views of its train and its test objects, but {folder} has none; "
            "unpack the official archive again."
        )
    return views


def _split(category: str, part: str, place: int, flat: bool) -> str | None:
    """The split of a view; None if it is left out."""
    if category in UNSEEN:
        return "test"
    if part == "test":
        return SEEN if flat else None
    return SEEN if not flat and place % 5 == 4 else "train"

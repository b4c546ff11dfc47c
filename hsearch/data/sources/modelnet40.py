"""ModelNet40 in views: category > object; 22 categories for training, 18 never seen (HiMulCon).

Reads the 12 rendered views per object of Multi-view CNN, modelnet40v1png.tar or modelnet40v1.tar or
their folder: CATEGORY/train and CATEGORY/test with files such as bowl_0065_001.png. The newer
renderings of modelnet40_images_new_12x (bowl_0065.obj.shaded_v001.png) lie in the same folders.

Images of the test objects of seen categories are held out; all of unseen categories are for tests.
HiMulCon counts the images of its seen and unseen categories but does not name them. Its numbers fit
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
LEVEL_NAMES = ("category", "object")
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


def records(layout: Layout) -> Found:
    """Yields the views, sorted by category, part and file name."""
    categories = (*UNSEEN, *TRAINED)
    folders = layout.require(*categories, inside="modelnet40v1png.tar")
    for number, (category, folder) in enumerate(zip(categories, folders, strict=True)):
        for part in ("train", "test"):
            split = "test" if category in UNSEEN else {"train": "train", "test": SEEN}[part]
            for view in _views(folder / part):
                where = f"{category}/{part}/{view.name}"
                match = VIEW.fullmatch(view.name)
                if match is None:
                    yield Problem(where, "file name without the number of a view")
                    continue
                labels = category, match["object"]
                yield Record(id=where, image=view, labels=labels, split=split, order=number)
    yield Note(
        "HiMulCon does not name its seen categories; trained on are the last 22 of the alphabet"
    )


def _views(folder: Path) -> list[Path]:
    """The images of a folder, of which there must be some."""
    found = sorted(folder.glob("*")) if folder.is_dir() else []
    views = [path for path in found if path.name.lower().endswith(SUFFIXES)]
    if not views:
        raise DatasetError(
            f"Every category needs views of its train and its test objects, but {folder} has none; "
            "unpack the official archive again."
        )
    return views

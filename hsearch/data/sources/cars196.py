"""Stanford Cars: 196 models, of which the first 98 are for training.

Reads either of the two official layouts: cars_annos.mat with car_ims/ (car_ims.tgz), or
cars_train_annos.mat and cars_meta.mat (car_devkit.tgz), cars_test_annos_withlabels.mat and the
folders cars_train/ and cars_test/. Which images the authors tested on does not matter.
`cars196-make` adds the 49 makes, and `cars196-cropped` keeps the part of an image inside its box.
"""

from pathlib import Path
from typing import Any
from zlib import error as ZlibError

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Box, Record, box_from_one
from hsearch.data.text_files import is_number
from hsearch.errors import DatasetError

HOME = "https://ai.stanford.edu/~jkrause/cars/car_dataset.html"
TOTAL = 16_185
LEVEL_NAMES = ("model",)
VARIANTS = {
    "cars196": {},
    "cars196-make": {"levels": ("make", "model")},
    "cars196-cropped": {"cropped": True},
}
TRAIN_CLASSES = 98
TWO_WORDS = ("AM General", "Aston Martin", "Land Rover")
"""Makes of two words; the others are the first word of a model's name."""

# What scipy was seen to raise for thousands of files that were cut off or had some bytes changed.
_DAMAGED = (
    *(ArithmeticError, LookupError, MemoryError, NameError, NotImplementedError, OSError),
    *(TypeError, ValueError, ZlibError),
)
_CORNERS = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")


def records(layout: Layout, levels: tuple[str, ...] = LEVEL_NAMES, cropped: bool = False) -> Found:
    """Yields the images in the order of the files; the number of a class sorts the classes."""
    meta, parts = _files(layout)
    names = [str(name) for name in _read(meta, "class_names")]
    for path, folder in parts:
        for number, entry in enumerate(_read(path, "annotations"), start=1):
            where = f"image {number} of {path}"
            file = str(_field(entry, "relative_im_path", "fname", where=where))
            file = file.removeprefix(f"{folder.name}/")
            label = _class(entry, names, where)
            name = names[label - 1]
            yield Record(
                id=f"{folder.name}/{file}",
                image=folder / file,
                labels=(_make(name), name)[-len(levels) :],
                split="train" if label <= TRAIN_CLASSES else "test",
                order=label,
                box=_box(entry, where) if cropped else None,
            )


def _files(layout: Layout) -> tuple[Path, list[tuple[Path, Path]]]:
    """The file with the names of classes, and every list of images with its folder."""
    first, second = ("cars_annos.mat", "car_ims"), ("cars_meta.mat", "cars_train", "cars_test")
    found = layout.find(*first, *second, "devkit/cars_meta.mat", everywhere=True)
    if found and found.name in first:
        listed, images = layout.require(
            "cars_annos.mat", "car_ims", inside="cars_annos.mat and car_ims.tgz"
        )
        return listed, [(listed, images)]
    meta, train, test, *folders = layout.require(
        "cars_meta.mat|devkit/cars_meta.mat",
        "cars_train_annos.mat|devkit/cars_train_annos.mat",
        "cars_test_annos_withlabels.mat|devkit/cars_test_annos_withlabels.mat",
        "cars_train",
        "cars_test",
        inside="car_devkit.tgz, the file with the labels of its test images, cars_train.tgz and "
        "cars_test.tgz; or instead cars_annos.mat with car_ims.tgz",
    )
    return meta, list(zip((train, test), folders, strict=True))


def _read(path: Path, variable: str) -> list[Any]:
    """Returns the items of one variable of a MATLAB file."""
    from scipy.io import loadmat  # here, as it takes longer than to list all sources
    from scipy.io.matlab import MatReadError

    try:
        items = list(loadmat(path, simplify_cells=True, variable_names=[variable])[variable])
    except (*_DAMAGED, MatReadError):
        raise DatasetError(
            f"The file {path} must be a MATLAB file with the list `{variable}`, but cannot be read "
            f"as one; get it from its official home again."
        ) from None
    return items


def _class(entry: object, names: list[str], where: str) -> int:
    label = str(_field(entry, "class", where=where))
    if not (is_number(label) and 1 <= int(label) <= len(names)):
        raise DatasetError(
            f"The class of {where} must be a number from 1 to {len(names)}, but is '{label}'."
        )
    return int(label)


def _box(entry: object, where: str) -> Box:
    return box_from_one([_field(entry, corner, where=where) for corner in _CORNERS], where)


def _field(entry: object, *names: str, where: str) -> object:
    """Returns the first of the fields that the entry has."""
    for name in names:
        if isinstance(entry, dict) and name in entry:
            return entry[name]
    hint = "; take cars_test_annos_withlabels.mat" if "class" in names else ""
    raise DatasetError(f"The field {' or '.join(names)} is needed, but {where} has none{hint}.")


def _make(name: str) -> str:
    return next((make for make in TWO_WORDS if name.startswith(make)), name.partition(" ")[0])

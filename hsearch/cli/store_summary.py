"""What `hsearch data show` says about a store: the rows of its tables."""

import numpy as np
from numpy.typing import NDArray

from hsearch.cli.output import megabytes
from hsearch.data.library import MEMORY_SHARE
from hsearch.data.splits import StoreSplits
from hsearch.data.store import Store
from hsearch.folds import NUM_FOLDS

_EXAMPLES = 3
_TAGS = 5
"""How many of the most and of the least frequent tags are shown."""


def levels(store: Store) -> list[tuple[str, str, str]]:
    """Returns every level with the number of its labels and a few of them."""
    hierarchy = store.hierarchy
    return [
        (level, str(len(names)), ", ".join(names[:_EXAMPLES]))
        for level, names in zip(hierarchy.level_names, hierarchy.names, strict=True)
    ]


def tags(store: Store) -> list[tuple[str, str]]:
    """Returns the most and the least frequent tags with their number of images."""
    counts = store.tags.sum(axis=0)
    order = np.argsort(-counts, kind="stable").tolist()
    rows = [(store.tag_names[tag], str(counts[tag])) for tag in order]
    left = len(rows) - 2 * _TAGS
    return [*rows[:_TAGS], (f"{left} more", ""), *rows[-_TAGS:]] if left > 0 else rows


def facts(store: Store) -> list[tuple[str, str]]:
    """Returns counts, sizes, splits and provenance in words."""
    decoded = megabytes(3 * int((store.heights * store.widths).sum()))
    return [
        *_labels(store),
        ("height", _range(store.heights, " px")),
        ("width", _range(store.widths, " px")),
        ("split", _splits(store)),
        *_marks(store),
        (
            "decoded",
            f"{decoded}; kept in a cache where it fits {MEMORY_SHARE:.0%} of the memory, from "
            "which the least recently used files go",
        ),
        ("digest", store.digest),
        ("file", str(store.path)),
        *((key, str(value)) for key, value in store.provenance.items() if value is not None),
    ]


def folds(store: Store, splits: StoreSplits) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns columns and rows: how many classes, or labels, and images every part has."""
    parts = [("trainval", splits.trainval), ("test", splits.test)]
    for number in range(NUM_FOLDS):
        fold = splits.fold(number)
        parts += [(f"fold {number} train", fold.train), (f"fold {number} val", fold.validation)]
    rows = [(part, str(_num_labels(store, ids)), str(len(ids))) for part, ids in parts]
    return ("part", "tags" if store.tag_names else "classes", "images"), list(rows)


def _num_labels(store: Store, rows: NDArray[np.int64]) -> int:
    if store.tag_names:
        return int(store.tags[rows].any(axis=0).sum())
    return len(np.unique(store.classes[rows]))


def _labels(store: Store) -> list[tuple[str, str]]:
    if store.tag_names:
        return [
            ("tags", str(len(store.tag_names))),
            ("images per tag", _range(store.tags.sum(axis=0))),
            ("tags per image", _range(store.tags.sum(axis=1))),
        ]
    return [("images per class", _range(np.bincount(store.classes)))]


def _marks(store: Store) -> list[tuple[str, str]]:
    if store.tag_names:  # they are scored without queries and gallery
        return []
    marks = {"queries": store.is_query, "gallery": store.is_gallery}
    return [(name, str(int(mark.sum()))) for name, mark in marks.items()]


def _splits(store: Store) -> str:
    names, counts = np.unique(store.split, return_counts=True)
    return ", ".join(f"{name or 'none'}: {n}" for name, n in zip(names, counts, strict=True))


def _range(values: NDArray[np.int64], unit: str = "") -> str:
    middle = f"mean {values.mean():.1f}, median {np.median(values):g}"
    return f"{values.min()} to {values.max()}{unit}, {middle}"

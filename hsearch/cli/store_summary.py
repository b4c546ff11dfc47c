"""What `hsearch data show` says about a store: the rows of its tables."""

import numpy as np
from numpy.typing import NDArray

from hsearch.cli.output import megabytes
from hsearch.data.library import MEMORY_SHARE
from hsearch.data.splits import StoreSplits, default_splits, is_own, names_test
from hsearch.data.store import Store
from hsearch.folds import NUM_FOLDS, Splits

_EXAMPLES = 3
_TAGS = 5
"""How many of the most and of the least frequent tags are shown."""
_KINDS: dict[Splits, str] = {
    "stratified": "classes are drawn such that all parts have their share of every coarser label "
    "and of the images; the draw belongs to the data set, whatever the seed of a study",
    "disjoint": "classes are cut into even ranges of their order",
    "mlrc": "classes are cut into the Reality Check's own ranges of their order",
}


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


def split_words(store: Store, kind: Splits) -> str:
    """Returns which splits these are and why, in a sentence or two."""
    if store.tag_names:
        test = "the data set's own test images" if names_test(store) else "a fifth of the images"
        return (
            "Splits: images are dealt out such that every part has its share of every tag; the "
            f"test is {test}."
        )
    others = " or ".join(other for other in _KINDS if other != kind)
    why = "as --splits says"
    if kind == default_splits(store):
        whose = "own images" if is_own(store) else "data that are not a user's own images"
        why = f"the default for {whose}"
    test = "the data set's own test classes" if names_test(store) else "half of the classes"
    return (
        f"Splits: {kind} ({why}; --splits {others} shows others): {_KINDS[kind]}. The test is "
        f"{test}."
    )


def folds(store: Store, splits: StoreSplits) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Returns columns and rows: what the test and every fold's validation hold, by level.

    A fold trains on the rest of trainval.
    """
    folds = [splits.fold(number).validation for number in range(NUM_FOLDS)]
    parts = [(f"fold {number} validation", rows) for number, rows in enumerate(folds)]
    parts = [("trainval", splits.trainval), *parts, ("test", splits.test)]
    levels = ("tags",) if store.tag_names else store.hierarchy.level_names
    per_class = "images per tag" if store.tag_names else "images per class"
    cells = [(part, str(len(rows)), *_held(store, rows)) for part, rows in parts]
    return ("part", "images", *levels, per_class), cells


def idle_levels(store: Store, splits: StoreSplits) -> list[str]:
    """Returns a sentence for every level whose metrics say nothing of their own on some fold."""
    if store.tag_names:
        return []
    names, sentences = store.hierarchy.level_names, []
    folds = [np.unique(store.classes[splits.fold(n).validation]) for n in range(NUM_FOLDS)]
    for level, name in enumerate(names[:-1]):
        labels = [len(np.unique(store.hierarchy.paths[fold, level])) for fold in folds]
        alone = [n for n, fold in enumerate(folds) if labels[n] == len(fold)]
        if alone:
            sentences.append(
                f"{_numbered(alone)}: no two classes share their {name}, so metrics at {name} are "
                f"those at {names[-1]}."
            )
        single = [n for n, count in enumerate(labels) if count == 1]
        if single:
            sentences.append(
                f"{_numbered(single)}: all classes share their {name}, so metrics at {name} are "
                "perfect whatever is trained."
            )
    return sentences


def _numbered(folds: list[int]) -> str:
    return f"Fold{'s' if folds[1:] else ''} {', '.join(map(str, folds))}"


def _held(store: Store, rows: NDArray[np.int64]) -> list[str]:
    """How many labels of each level, or tags, some images have, and the images per class or tag."""
    if store.tag_names:
        images = store.tags[rows].sum(axis=0)
        labels = [int(np.count_nonzero(images))]
    else:
        images = np.bincount(store.classes[rows])
        labels = [len(np.unique(column)) for column in store.hierarchy.paths[store.classes[rows]].T]
    some = images[images > 0]
    least, most = (some.min(), some.max()) if some.size else (0, 0)
    return [*map(str, labels), f"{least} to {most}"]


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

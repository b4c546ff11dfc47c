"""The splits of a store: of its classes, or of its images where these have several labels."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsearch.data.records import SEEN
from hsearch.data.sources import available_sources, load_source
from hsearch.data.store import Store
from hsearch.errors import ConfigError, DatasetError
from hsearch.folds import (
    NUM_FOLDS,
    ClassSplits,
    Splits,
    class_splits,
    multilabel_folds,
    stratified_splits,
)
from hsearch.hierarchy import Hierarchy

IntArray = NDArray[np.int64]
Labels = NDArray[np.int64] | NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class StoreFold:
    """The images of one fold.

    Attributes:
        hierarchy: Of the training classes, numbered 0..C-1; for images with several labels all
            labels, on one level.
        classes: (C,) the store's number of each of these.
        train: (N,) rows of the training images, ascending.
        train_paths: (N, L) their label paths, by which batches are drawn; images with several
            labels are all of one class.
        train_labels: (N, L) their label paths in `hierarchy`, or (N, T) which labels they have.
        validation: (M,) rows of the validation images, ascending.
    """

    hierarchy: Hierarchy
    classes: IntArray
    train: IntArray
    train_paths: IntArray
    train_labels: Labels
    validation: IntArray


@dataclass(frozen=True, eq=False)
class StoreSplits:
    """Which images of a store train, validate and test.

    Attributes:
        trainval: (N,) rows of the images of all folds.
        test: (M,) rows of the test images.
        fold: Returns a fold by its number; `ALL_CLASSES` is one without validation images.
    """

    trainval: IntArray
    test: IntArray
    fold: Callable[[int], StoreFold]


def default_splits(store: Store) -> Splits:
    """Returns the splits that a store has where nobody names any: they follow from its source.

    Own images, whose classes are sorted by their names and thereby by their coarser labels, have
    `stratified` ones; published and drawn data sets keep the ranges of their own order, `disjoint`,
    and so do images with several labels, for which there is one way only.
    """
    return "stratified" if is_own(store) and not store.tag_names else "disjoint"


def is_own(store: Store) -> bool:
    """Returns whether a store was made of a user's own files, not of a published data set."""
    source = store.provenance.get("source")
    return source in available_sources() and load_source(str(source)).is_own


def names_test(store: Store) -> bool:
    """Returns whether the data set itself says which images are for the test."""
    return bool(np.char.startswith(store.split, "test").any())


def split_store(store: Store, splits: Splits | None = None) -> StoreSplits:
    """Returns the splits of a store's images: by their classes, or by several labels each.

    Args:
        store: The data set.
        splits: How classes are split; by default as `default_splits` says.
    """
    kind = default_splits(store) if splits is None else splits
    return _by_labels(store, kind) if store.tag_names else _by_classes(store, kind)


def labels_of(store: Store, rows: IntArray) -> Labels:
    """Returns (N, L) label paths in the store's numbering, or (N, T) which labels images have."""
    return store.tags[rows] if store.tag_names else store.hierarchy.paths[store.classes[rows]]


def _by_classes(store: Store, kind: Splits) -> StoreSplits:
    splits = store_splits(store, kind)

    def fold(number: int) -> StoreFold:
        classes = splits.fold(number)
        hierarchy = store.hierarchy.restrict(classes.train)
        rows = store.rows(classes.train)
        position = np.full(store.hierarchy.num_classes, -1)
        position[classes.train] = np.arange(len(classes.train))
        paths = hierarchy.paths[position[store.classes[rows]]]
        return StoreFold(
            hierarchy=hierarchy,
            classes=classes.train,
            train=rows,
            train_paths=paths,
            train_labels=paths,
            validation=store.rows(classes.validation),
        )

    return StoreSplits(store.rows(splits.trainval), store.rows(splits.test), fold)


def _by_labels(store: Store, kind: Splits) -> StoreSplits:
    if kind != "disjoint":
        raise ConfigError(
            f"`{kind}` splits are of classes, but the images of '{store.name}' have several labels "
            "each; leave --splits out."
        )
    trainval, test = _label_test(store)
    folds = multilabel_folds(store.tags[trainval], num_folds=NUM_FOLDS)
    hierarchy = Hierarchy.from_names([(name,) for name in store.tag_names])

    def fold(number: int) -> StoreFold:
        positions = folds.fold(number)
        rows = trainval[positions.train]
        return StoreFold(
            hierarchy=hierarchy,
            classes=np.arange(len(store.tag_names)),
            train=rows,
            train_paths=store.hierarchy.paths[store.classes[rows]],
            train_labels=store.tags[rows],
            validation=trainval[positions.validation],
        )

    return StoreSplits(trainval, test, fold)


def _label_test(store: Store) -> tuple[IntArray, IntArray]:
    """Rows but those of the test, and those: the data set's own, or a fifth of all images."""
    marked = int(np.char.startswith(store.split, "test").sum())
    if len(store) - marked < NUM_FOLDS or len(store) <= NUM_FOLDS:
        raise DatasetError(
            f"{NUM_FOLDS} folds and a test need at least {NUM_FOLDS + 1} images, {NUM_FOLDS} of "
            f"them not marked test, but '{store.name}' has {len(store)}, of which {marked} are "
            "marked test; prepare it with more images."
        )
    if not (store.split == "").any():
        is_test = np.char.startswith(store.split, "test")
        if not is_test.any():
            raise DatasetError(
                f"Images of '{store.name}' are marked train (or val), but none is marked test; "
                "mark the test images, or leave `split` out to test on a fifth of all images."
            )
    elif (store.split == "").all():
        parts = NUM_FOLDS + 1
        is_test = multilabel_folds(store.tags, num_folds=parts).fold_of == NUM_FOLDS
    else:
        raise _some_unmarked(store)
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def store_splits(store: Store, splits: Splits | None = None) -> ClassSplits:
    """Returns the splits of a store's classes: its own test classes, or half of them as test.

    Args:
        store: The data set.
        splits: How classes are split; by default as `default_splits` says.
    """
    if store.tag_names:
        raise DatasetError(
            f"Folds of classes need one label path per image, but the images of '{store.name}' "
            "have several labels each; choose data with classes."
        )
    _check_marks(store)
    is_test = np.char.startswith(store.split, "test")
    tested = np.unique(store.classes[is_test])
    both = np.intersect1d(tested, store.classes[~is_test & (store.split != "")])
    if both.size:
        raise DatasetError(
            "Metric learning is tested on classes that were never trained on, but class "
            f"'{store.hierarchy.names[-1][both[0]]}' has both train and test images ({both.size} "
            "such classes); leave `split` out to test on half of the classes."
        )
    kind = default_splits(store) if splits is None else splits
    named = tested if tested.size else None
    if kind == "stratified":
        images = np.bincount(
            store.classes[store.split != SEEN], minlength=store.hierarchy.num_classes
        )
        return stratified_splits(store.hierarchy, images, test_classes=named)
    return class_splits(store.hierarchy.num_classes, splits=kind, test_classes=named)


def _check_marks(store: Store) -> None:
    """Raises where marks of some images would be passed over in silence."""
    marks = set(store.split.tolist())
    if len(marks) > 1 and "" in marks:
        raise _some_unmarked(store)
    seen = store.classes[store.split == SEEN]
    untrained = np.setdiff1d(seen, store.classes[store.split == "train"])
    if untrained.size:
        raise DatasetError(
            "Images are held out of classes that are trained on, but class "
            f"'{store.hierarchy.names[-1][untrained[0]]}' has no image to train on."
        )
    if marks and marks <= {"train", SEEN}:
        raise DatasetError(
            "Images are marked train (or val), but none is marked test; mark the test classes, or "
            "leave `split` (or folders train and val) out to test on half of the classes."
        )


def _some_unmarked(store: Store) -> DatasetError:
    return DatasetError(
        "Either every image has a split or none has, but "
        f"{np.count_nonzero(store.split == '')} of {len(store)} images have none; mark them "
        "train or test, or leave `split` out."
    )

"""The class splits of a store."""

import numpy as np

from hsearch.data.records import SEEN
from hsearch.data.store import Store
from hsearch.errors import DatasetError
from hsearch.folds import ClassSplits, Splits, class_splits


def store_splits(store: Store, splits: Splits = "disjoint") -> ClassSplits:
    """Returns the splits of a store's classes: its own test classes, or the second half as test."""
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
            "such classes); leave `split` out to test on the second half of the classes."
        )
    return class_splits(
        store.hierarchy.num_classes, splits=splits, test_classes=tested if tested.size else None
    )


def _check_marks(store: Store) -> None:
    """Raises where marks of some images would be passed over in silence."""
    marks = set(store.split.tolist())
    if len(marks) > 1 and "" in marks:
        raise DatasetError(
            "Either every image has a split or none has, but "
            f"{np.count_nonzero(store.split == '')} of {len(store)} images have none; mark them "
            "train or test, or leave `split` out."
        )
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
            "leave `split` (or folders train and val) out to test on the second half of classes."
        )

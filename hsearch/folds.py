"""Class-disjoint splits: which classes train, validate and test."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hsearch.errors import ConfigError

NUM_FOLDS = 4
ALL_CLASSES = NUM_FOLDS
"""The number of the "fold" that trains on all classes but the test's, and validates on none."""

Splits = Literal["disjoint", "mlrc"]


@dataclass(frozen=True, eq=False)
class Fold:
    """Classes of one fold: `train` and `validation` are disjoint, sorted class ids."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClassSplits:
    """All splits of a data set: its folds, and the test classes that no fold ever sees."""

    trainval: NDArray[np.int64]
    test: NDArray[np.int64]
    folds: tuple[Fold, ...]

    def fold(self, number: int) -> Fold:
        """Returns a fold by its number; `ALL_CLASSES` is one without validation classes."""
        if number == ALL_CLASSES:
            return Fold(self.trainval, self.trainval[:0])
        return self.folds[number]


def folds_of_run(first: int) -> tuple[int, ...]:
    """Returns the folds that a run trains whose first one is given: all, or `ALL_CLASSES` alone."""
    return (ALL_CLASSES,) if first == ALL_CLASSES else tuple(range(NUM_FOLDS))


def class_splits(
    num_classes: int,
    *,
    splits: Splits = "disjoint",
    num_folds: int = NUM_FOLDS,
    test_classes: ArrayLike | None = None,
) -> ClassSplits:
    """Returns the splits of classes 0..num_classes-1, which must be sorted by id.

    The first half of the classes is trainval, the second half (the larger one if odd) is test.

    Args:
        num_classes: Enough for two validation classes in every fold.
        splits: `disjoint`: trainval in `num_folds` contiguous parts of nearly equal size; fold k
            validates on part k and trains on the others. `mlrc`: the contiguous ranges with
            wrap-around of the Reality Check's own code, 4 folds.
        num_folds: At least 2.
        test_classes: The test classes where the data set names them itself; all others are
            trainval. For `mlrc` they must be the second half.

    References:
        Musgrave, Belongie, Lim, A Metric Learning Reality Check, ECCV 2020, arXiv:2003.08505.
    """
    if num_folds < 2 or (splits == "mlrc" and num_folds != NUM_FOLDS):
        raise ConfigError(f"`{splits}` splits cannot have {num_folds} folds.")
    classes = np.arange(num_classes)
    test = classes[num_classes // 2 :]
    if test_classes is not None:
        named = _checked(np.unique(np.asarray(test_classes, dtype=np.int64)), num_classes)
        if splits == "mlrc" and not np.array_equal(named, test):
            raise ConfigError(
                "`mlrc` splits test on the second half of the classes, but this data set names "
                "others as its own test; use `disjoint`."
            )
        test = named
    trainval = np.setdiff1d(classes, test)
    if len(trainval) < 2 * num_folds:
        raise ConfigError(
            f"{num_folds} class-disjoint folds need at least {2 * num_folds} classes besides the "
            f"test classes, but {len(trainval)} of {num_classes} are left."
        )
    folds = _mlrc_folds(num_classes) if splits == "mlrc" else _even_folds(trainval, num_folds)
    return ClassSplits(trainval, test, folds)


def _checked(test: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    if not test.size:
        raise ConfigError("A data set that names its test classes needs at least one test class.")
    if test[0] < 0 or test[-1] >= num_classes:
        raise ConfigError(
            f"The test classes must lie in 0..{num_classes - 1}, but got {test[0]}..{test[-1]}."
        )
    return test


def _even_folds(trainval: NDArray[np.int64], num_folds: int) -> tuple[Fold, ...]:
    parts = np.array_split(trainval, num_folds)
    return tuple(Fold(np.setdiff1d(trainval, part), part) for part in parts)


def _mlrc_folds(num_classes: int) -> tuple[Fold, ...]:
    """The original's ranges; the class it puts on both sides for odd counts only validates here."""
    num_trainval = num_classes // 2
    num_validation = num_classes // 8
    num_train = num_classes - num_validation - num_trainval
    folds = []
    for part in range(NUM_FOLDS):
        start = part * num_trainval // NUM_FOLDS
        ring = (start + np.arange(num_train + num_validation)) % num_trainval
        validation = np.sort(ring[num_train:])
        folds.append(Fold(np.setdiff1d(ring[:num_train], validation), validation))
    return tuple(folds)

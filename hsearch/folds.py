"""Which classes train, validate and test; for multi-label data, which images.

Classes are split as a whole, so that validation and test are about classes never trained on. Images
of several labels cannot be split like that: their folds share the labels, in equal proportions.
"""

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
    """One fold: `train` and `validation` are disjoint, sorted ids of classes, or of images."""

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


@dataclass(frozen=True, eq=False)
class ImageFolds:
    """The folds of multi-label images.

    Attributes:
        fold_of: (N,) the fold that each image validates, 0..num_folds - 1.
        num_folds: How many there are.
        rare: Labels, ascending, that fewer images have than there are folds, though at least one:
            some folds validate without them.
        absent: Labels that enough images have, and that still miss in some fold because every
            image that could stand there is another label's only one in its fold.
    """

    fold_of: NDArray[np.int64]
    num_folds: int
    rare: tuple[int, ...]
    absent: tuple[int, ...]

    def fold(self, number: int) -> Fold:
        """Returns a fold by its number; `num_folds` is one without validation images."""
        own = self.fold_of == number
        return Fold(np.flatnonzero(~own), np.flatnonzero(own))


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
            trainval. For `mlrc` they must be the second half, or all of it but its first class.

    References:
        Musgrave, Belongie, Lim, A Metric Learning Reality Check, ECCV 2020, arXiv:2003.08505.
    """
    if num_folds < 2 or (splits == "mlrc" and num_folds != NUM_FOLDS):
        raise ConfigError(f"`{splits}` splits cannot have {num_folds} folds.")
    classes = np.arange(num_classes)
    test = classes[num_classes // 2 :]
    if test_classes is not None:
        named = _checked(np.unique(np.asarray(test_classes, dtype=np.int64)), num_classes)
        # Of SOP's own two lists the first has a class more than the second; the original cuts by
        # number alone.
        if splits == "mlrc" and not (
            np.array_equal(named, test) or np.array_equal(named, test[1:])
        ):
            raise ConfigError(
                "`mlrc` splits test on the second half of the classes, but this data set names "
                "others as its own test; use `disjoint`."
            )
        test = test if splits == "mlrc" else named
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


def multilabel_folds(labels: ArrayLike, *, num_folds: int = NUM_FOLDS) -> ImageFolds:
    """Returns folds of images in which every label has about its share.

    Iterative stratification: of the labels with images left, the rarest is dealt out first; each of
    its images goes to the fold that wants most of that label still, of those to the one that wants
    most images, and then to the first. As rare labels are dealt out while there is choice, common
    ones make up for it. Images without labels come last. Then, beyond the paper: where a label with
    enough images is absent from a fold, an image moves there; and images move from the largest
    fold to the smallest until sizes differ by one at most. Whichever disturbs the proportions least
    is moved, and never the last one of a label that has enough images.

    Nothing is random: the same labels in the same order give the same folds.

    Args:
        labels: (N, T) multi-hot, N at least `num_folds`.
        num_folds: At least 2.

    References:
        Sechidis, Tsoumakas, Vlahavas, On the Stratification of Multi-Label Data, ECML PKDD 2011.
    """
    has = np.asarray(labels).astype(bool)
    if num_folds < 2 or has.ndim != 2 or len(has) < num_folds:
        raise ConfigError(
            "Folds of images need a table of their labels, at least 2 folds and an image for each, "
            f"but got labels of shape {has.shape} and {num_folds} folds."
        )
    fold_of = _deal(has, num_folds)
    mover = _Mover(has, fold_of, num_folds)
    mover.fill()
    mover.level()
    images = has.sum(axis=0)
    absent = (mover.counts == 0).any(axis=0) & (images >= num_folds)
    rare = (images > 0) & (images < num_folds)
    found = (tuple(np.flatnonzero(which).tolist()) for which in (rare, absent))
    return ImageFolds(fold_of, num_folds, *found)


def _deal(has: NDArray[np.bool_], num_folds: int) -> NDArray[np.int64]:
    """The paper's algorithm; plain lists, as folds and the labels of an image are few."""
    count, images = len(has), has.sum(axis=0)
    wanted = [[float(number) / num_folds] * num_folds for number in images]
    room = [count / num_folds] * num_folds
    fold_of = np.full(count, -1, dtype=np.int64)
    rows, columns = np.nonzero(has)
    labels_of = np.split(columns, np.searchsorted(rows, np.arange(1, count)))
    left = images.copy()
    while (left > 0).any():
        label = int(np.where(left > 0, left, count + 1).argmin())
        dealt = np.flatnonzero(has[:, label] & (fold_of < 0))
        for image in dealt.tolist():
            # The first of equal maxima, as pairs are compared from left to right.
            fold = max(range(num_folds), key=lambda k: (wanted[label][k], room[k]))
            fold_of[image] = fold
            room[fold] -= 1
            for other in labels_of[image].tolist():
                wanted[other][fold] -= 1
        left -= has[dealt].sum(axis=0)
    for image in np.flatnonzero(fold_of < 0).tolist():
        fold_of[image] = fold = room.index(max(room))
        room[fold] -= 1
    return fold_of


class _Mover:
    """Moves images between folds; `fold_of` is changed in place.

    Moving an image with label l from fold s to fold t changes the sum, over folds, of the squared
    deviations from an equal share by 2 (n_lt - n_ls + 1), with n the numbers of images. The cost of
    a move is the sum of that over the image's labels, each divided by its number of images.

    Attributes:
        counts: (folds, T) images of every label in every fold.
        sizes: (folds,) images.
    """

    def __init__(self, has: NDArray[np.bool_], fold_of: NDArray[np.int64], num_folds: int) -> None:
        self.has, self.fold_of = has, fold_of
        self.counts = np.stack([has[fold_of == fold].sum(axis=0) for fold in range(num_folds)])
        self.sizes = np.bincount(fold_of, minlength=num_folds)
        self._images = has.sum(axis=0)
        self._enough = self._images >= num_folds

    def fill(self) -> None:
        """Brings labels with enough images, the rarest first, into folds that have none."""
        empty = (self.counts == 0) & self._enough
        for label in np.argsort(self._images, kind="stable"):
            for target in np.flatnonzero(empty[:, label]):
                if self.counts[target, label] == 0:
                    self._move(np.flatnonzero(self.has[:, label]), int(target), 1)

    def level(self) -> None:
        """Makes sizes differ by one at most, as far as images can be moved."""
        while (gap := int(self.sizes.max() - self.sizes.min())) > 1:
            source, target = int(self.sizes.argmax()), int(self.sizes.argmin())
            # Costs change with every move: a large gap is closed in several rounds.
            if not self._move(np.flatnonzero(self.fold_of == source), target, max(1, gap // 8)):
                return

    def _move(self, images: NDArray[np.int64], target: int, most: int) -> bool:
        """Moves those that cost least; false if none of them can be spared."""
        costs = self._costs(images, target)
        best = np.argsort(costs, kind="stable")[:most]
        moved = False
        for image in images[best[np.isfinite(costs[best])]]:
            source = self.fold_of[image]
            if not (self.has[image] & self._last(source)).any():  # the moves before may matter
                self.fold_of[image] = target
                self.counts[[source, target]] += np.outer([-1, 1], self.has[image])
                self.sizes[[source, target]] += [-1, 1]
                moved = True
        return moved

    def _costs(self, images: NDArray[np.int64], target: int) -> NDArray[np.float64]:
        """Returns the cost of moving each of the images; infinite where it is a last one."""
        costs = np.empty(len(images))
        for source in np.unique(self.fold_of[images]):
            chosen = np.flatnonzero(self.fold_of[images] == source)
            marks = self.has[images[chosen]]
            change = 2.0 * (self.counts[target] - self.counts[source] + 1) / self._images.clip(1)
            needed = marks[:, self._last(source)].any(axis=1)
            costs[chosen] = np.where(needed, np.inf, marks @ change)
        return costs

    def _last(self, fold: int) -> NDArray[np.bool_]:
        """Returns (T,): of which labels with enough images the fold has none to spare."""
        last: NDArray[np.bool_] = self._enough & (self.counts[fold] <= 1)
        return last

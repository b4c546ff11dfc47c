"""Which classes train, validate and test; for multi-label data, which images.

Classes are split as a whole, so that validation and test are about classes never trained on. Images
of several labels cannot be split like that: their folds share the labels, in equal proportions.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hsearch.errors import ConfigError
from hsearch.hierarchy import Hierarchy

NUM_FOLDS = 4
ALL_CLASSES = NUM_FOLDS
"""The number of the "fold" that trains on all classes but the test's, and validates on none."""

Splits = Literal["disjoint", "mlrc", "stratified"]


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
    splits: Literal["disjoint", "mlrc"] = "disjoint",
    num_folds: int = NUM_FOLDS,
    test_classes: ArrayLike | None = None,
) -> ClassSplits:
    """Returns the splits of classes 0..num_classes-1, which must be sorted by id, by their ranges.

    The first half of the classes is trainval, the second half (the larger one if odd) is test.
    `stratified_splits` draws the classes instead.

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
    _check_enough(len(trainval), num_classes, num_folds)
    folds = _mlrc_folds(num_classes) if splits == "mlrc" else _even_folds(trainval, num_folds)
    return ClassSplits(trainval, test, folds)


def _check_enough(num_trainval: int, num_classes: int, num_folds: int) -> None:
    if num_trainval < 2 * num_folds:
        raise ConfigError(
            f"{num_folds} class-disjoint folds need at least {2 * num_folds} classes besides the "
            f"test classes, but {num_trainval} of {num_classes} are left."
        )


def _checked(test: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    if not test.size:
        raise ConfigError("A data set that names its test classes needs at least one test class.")
    if test[0] < 0 or test[-1] >= num_classes:
        raise ConfigError(
            f"The test classes must lie in 0..{num_classes - 1}, but got {test[0]}..{test[-1]}."
        )
    return test


def _even_folds(trainval: NDArray[np.int64], num_folds: int) -> tuple[Fold, ...]:
    return _folds_of(trainval, np.array_split(trainval, num_folds))


def _folds_of(trainval: NDArray[np.int64], parts: Iterable[NDArray[np.int64]]) -> tuple[Fold, ...]:
    """Fold k validates on part k and trains on the others."""
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


def stratified_splits(
    hierarchy: Hierarchy, images: ArrayLike, *, test_classes: ArrayLike | None = None
) -> ClassSplits:
    """Returns splits that are alike: every part has its share of every label, and of the images.

    Classes are drawn into two halves, test (the larger one if odd) and trainval, and trainval is
    halved twice more into 4 folds. To halve classes, neighbours in the tree are paired: siblings
    with similar numbers of images first, then whatever is left over of siblings with that of their
    cousins, and so on up to the root. Each half gets one class of every pair, so that of the n
    classes below any label, at any level, it has n / 2 rounded up or down, and a fold a quarter of
    those in trainval, rounded up or down. Which of the two it gets is chosen such that the numbers
    of images stay even, else drawn.

    Every fold, and the test, has classes of at least two labels of the coarsest level where this is
    possible, that is where at least 5 classes (4 if the data set names its test classes) do not
    belong to the label that most belong to; else of the next level. Where the draw has not come out
    so, classes are exchanged, and the shares above are met less closely.

    The draw follows from the names of the classes alone: it is the same for all studies of a data
    set, whatever their seed and whatever the order of the classes.

    Args:
        hierarchy: Of all classes; enough for two validation classes in every fold.
        images: (C,) how many images every class has.
        test_classes: The test classes where the data set names them itself; all others are
            trainval.
    """
    count = hierarchy.num_classes
    strata = _Strata(hierarchy, np.asarray(images, dtype=np.int64))
    if test_classes is None:
        _check_enough(count // 2, count, NUM_FOLDS)
        test, trainval = strata.halves(range(count), "test")
        strata.exchange_with_test(test, trainval)
    else:
        test = _checked(np.unique(np.asarray(test_classes, dtype=np.int64)), count).tolist()
        trainval = np.setdiff1d(np.arange(count), test).tolist()
        _check_enough(len(trainval), count, NUM_FOLDS)
    parts = [
        part
        for half in strata.halves(trainval, "folds")
        for part in strata.halves(half, "half of the folds")
    ]
    strata.exchange_between(parts)
    every = np.sort(np.array(trainval))
    folds = _folds_of(every, [np.sort(np.array(part)) for part in parts])
    return ClassSplits(every, np.sort(np.array(test)), folds)


_DRAW = "hsearch stratified splits 1"
"""Part of every draw of classes; another text would draw all data sets anew."""


class _Strata:
    """Draws classes such that parts are alike at every level and in their numbers of images.

    Whatever is drawn is a digest of names, so that neither the order of the classes nor a version
    of numpy matters.
    """

    def __init__(self, hierarchy: Hierarchy, images: NDArray[np.int64]) -> None:
        levels = zip(hierarchy.names, hierarchy.paths.T.tolist(), strict=True)
        columns = [[names[label] for label in column] for names, column in levels]
        self.names = list(zip(*columns, strict=True))
        self.images: list[int] = images.tolist()
        self.coarser = range(1, hierarchy.num_levels)  # how many names a coarser label has
        self.seed = hashlib.sha256(json.dumps([_DRAW, sorted(self.names)]).encode()).hexdigest()

    def halves(self, classes: Iterable[int], purpose: str) -> tuple[list[int], list[int]]:
        """Returns two halves of the classes; where these are odd, the first has one more."""
        chosen = list(classes)
        pairs, left = self._pairs(chosen, 0, purpose)
        first, second = list[int](), list[int]()
        ahead = 0  # how many images the first half has too many, times the number of classes
        if left is not None:
            first.append(left)
            ahead = len(chosen) * self.images[left] - sum(self.images[each] for each in chosen)
        # The largest differences first: the small ones make up for them.
        gaps = [
            (self.images[few] - self.images[many], self._draw(f"{purpose}: side", few), few, many)
            for few, many in pairs
        ]
        for gap, drawn, few, many in sorted(gaps):
            behind = drawn[0] % 2 == 0 if ahead * gap == 0 else ahead < 0
            first.append(many if behind else few)
            second.append(few if behind else many)
            ahead += len(chosen) * (-gap if behind else gap)
        return first, second

    def exchange_with_test(self, test: list[int], trainval: list[int]) -> None:
        """Gives trainval enough classes beside its most frequent label for all folds, in place."""
        for depth in self.coarser:
            main = self._most_frequent(trainval, depth)
            if self._others([*test, *trainval], main) <= NUM_FOLDS:
                continue
            while self._others(trainval, main) < NUM_FOLDS:
                self._exchange(main, test, trainval)
            return

    def exchange_between(self, parts: list[list[int]]) -> None:
        """Gives every part classes of two labels, of the first level that has enough, in place."""
        for depth in self.coarser:
            main = self._most_frequent([each for part in parts for each in part], depth)
            if sum(self._others(part, main) for part in parts) < len(parts):
                continue
            for part in parts:
                if not self._others(part, main):
                    richest = max(parts, key=lambda each: self._others(each, main))
                    self._exchange(main, richest, part)
            return

    def _draw(self, purpose: str, member: int, depth: int | None = None) -> bytes:
        """Returns a draw for a class, or for its label with so many names."""
        text = json.dumps([self.seed, purpose, *self.names[member][:depth]])
        return hashlib.sha256(text.encode()).digest()

    def _pairs(
        self, classes: list[int], depth: int, purpose: str
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Returns pairs of classes, that with fewer images first, and the one that is left over.

        Args:
            classes: They share their first names.
            depth: How many of them.
            purpose: Of the draw.
        """
        if depth == len(self.coarser):
            return self._sibling_pairs(classes, purpose)
        groups: dict[str, list[int]] = defaultdict(list)
        for each in classes:
            groups[self.names[each][depth]].append(each)
        # The largest group last: the others together are then halved as evenly as it is.
        ordered = sorted(
            groups.values(),
            key=lambda group: (len(group), self._draw(purpose, group[0], depth + 1)),
        )
        pairs: list[tuple[int, int]] = []
        left: int | None = None
        for group in ordered:
            inner, over = self._pairs(group, depth + 1, purpose)
            pairs += inner
            if left is not None and over is not None:
                pairs += self._sibling_pairs([left, over], purpose)[0]
                left = None
            elif over is not None:
                left = over
        return pairs, left

    def _sibling_pairs(
        self, classes: list[int], purpose: str
    ) -> tuple[list[tuple[int, int]], int | None]:
        drawn = {each: self._draw(purpose, each) for each in classes}
        ordered = sorted(classes, key=lambda each: (self.images[each], drawn[each]))
        left = min(classes, key=drawn.__getitem__) if len(classes) % 2 else None
        if left is not None:
            ordered.remove(left)
        return list(zip(ordered[::2], ordered[1::2], strict=True)), left

    def _most_frequent(self, classes: list[int], depth: int) -> tuple[str, ...]:
        """The label, with so many names, that most of the classes have."""
        counts = Counter(self.names[each][:depth] for each in classes)
        return max(counts, key=lambda label: (counts[label], label))

    def _others(self, classes: list[int], label: tuple[str, ...]) -> int:
        """How many of the classes have another label."""
        return sum(self.names[each][: len(label)] != label for each in classes)

    def _exchange(self, label: tuple[str, ...], giver: list[int], taker: list[int]) -> None:
        """Exchanges a class of another label for one of this, in place.

        The one given is of labels, at all levels, that the giver has more of than the taker, the
        one taken of such that the taker has more of; and they have similar numbers of images.
        """
        surplus: Counter[tuple[str, ...]] = Counter()
        for depth in self.coarser:
            surplus.update(self.names[each][:depth] for each in giver)
            surplus.subtract(self.names[each][:depth] for each in taker)

        def cost(pair: tuple[int, int]) -> tuple[int, int, tuple[str, ...], tuple[str, ...]]:
            given, taken = (self.names[each] for each in pair)
            uneven = sum(surplus[taken[:depth]] - surplus[given[:depth]] for depth in self.coarser)
            return uneven, abs(self.images[pair[0]] - self.images[pair[1]]), given, taken

        given, taken = min(
            (
                (one, two)
                for one in giver
                for two in taker
                if self.names[one][: len(label)] != label == self.names[two][: len(label)]
            ),
            key=cost,
        )
        giver[giver.index(given)], taker[taker.index(taken)] = taken, given


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

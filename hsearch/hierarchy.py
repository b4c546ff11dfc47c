"""Label paths of classes, coarsest level first, and the relevance they give to pairs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hsearch.errors import DatasetError

IntArray = NDArray[np.int64]
Relevance = Literal["pop", "map"]


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """The label path of every class.

    Attributes:
        paths: (C, L) integers. Row c is the path of class c, coarsest level first; ids count from
            0 without gaps inside each level, and the last column is 0..C-1, the class itself.
        names: L tuples; `names[l][i]` is the name of label i of level l.
        level_names: L names of the levels, such as ("make", "model").
    """

    paths: IntArray
    names: tuple[tuple[str, ...], ...]
    level_names: tuple[str, ...]

    def __post_init__(self) -> None:
        paths = np.array(self.paths, dtype=np.int64, order="C")  # a copy: the caller's stays free
        paths.setflags(write=False)
        object.__setattr__(self, "paths", paths)
        _check(paths, self.names, self.level_names)

    @classmethod
    def from_names(
        cls, name_paths: Iterable[Sequence[str]], level_names: Sequence[str] | None = None
    ) -> "Hierarchy":
        """Builds a hierarchy from one path of names per class, in the order of the classes.

        A label is its whole path: `("bmw", "coupe")` and `("audi", "coupe")` are two labels.
        Labels of the coarser levels are numbered in the order of their first appearance.
        """
        rows = [tuple(path) for path in name_paths]
        if not rows:
            raise DatasetError("A hierarchy needs at least one class, but none was given.")
        depth = len(rows[0])
        if depth == 0 or any(len(row) != depth for row in rows):
            raise DatasetError(
                "All label paths must have the same depth of at least one, but depths "
                f"{sorted({len(row) for row in rows})} were given; give every class all levels."
            )
        if len(set(rows)) != len(rows):
            twice = next(row for row in rows if rows.count(row) > 1)
            raise DatasetError(
                f"Every class must have a label path of its own, but '{'/'.join(twice)}' was given "
                "twice."
            )
        columns, names = [], []
        for level in range(depth):
            ids: dict[tuple[str, ...], int] = {}
            columns.append([ids.setdefault(row[: level + 1], len(ids)) for row in rows])
            names.append(tuple(prefix[-1] for prefix in ids))
        return cls(
            np.array(columns, dtype=np.int64).T,
            tuple(names),
            tuple(level_names or default_level_names(depth)),
        )

    @property
    def num_classes(self) -> int:
        """Number of labels of the finest level."""
        return int(self.paths.shape[0])

    @property
    def num_levels(self) -> int:
        """Number of levels, at least 1."""
        return int(self.paths.shape[1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of labels of each level, coarsest first."""
        return tuple(len(names) for names in self.names)

    def restrict(self, classes: ArrayLike) -> "Hierarchy":
        """Returns the hierarchy of the given classes, renumbered without gaps at every level.

        New class i is old class `classes[i]`; coarser labels are numbered by first appearance.
        """
        kept = self._class_ids(classes)
        if kept.size == 0 or len(np.unique(kept)) != kept.size:
            raise ValueError("`classes` must be distinct and not empty.")
        columns, names = [], []
        for level, column in enumerate(self.paths[kept].T):
            ids: dict[int, int] = {}
            columns.append([ids.setdefault(int(label), len(ids)) for label in column])
            names.append(tuple(self.names[level][label] for label in ids))
        return Hierarchy(np.array(columns, dtype=np.int64).T, tuple(names), self.level_names)

    def shared_levels(self, queries: ArrayLike, items: ArrayLike) -> IntArray:
        """Returns (Q, N): how many levels query class q and item class n share (L = same class)."""
        left, right = self.paths[self._class_ids(queries)], self.paths[self._class_ids(items)]
        shared = np.zeros((len(left), len(right)), dtype=np.int64)
        for level in range(self.num_levels):
            shared += left[:, level, None] == right[None, :, level]
        return shared

    def relevance(
        self,
        queries: ArrayLike,
        items: ArrayLike,
        *,
        kind: Relevance = "pop",
        alpha: float = 1.0,
        weights: Sequence[float] | None = None,
    ) -> NDArray[np.float64]:
        """Returns (Q, N): the relevance of every item class to every query class.

        It follows from the number of shared levels, see `level_relevance`; a query that is among
        the items counts as one.

        Args:
            queries: Class ids (Q,).
            items: Class ids (N,) of the retrieval list.
            kind: `pop` or `map`.
            alpha: Exponent of `pop`, > 0. Above 1 it favours the fine level.
            weights: L weights of `map`, coarsest first; equal weights of 1 / L if not given.
        """
        shared = self.shared_levels(queries, items)
        counts = np.stack([(shared == n).sum(axis=1) for n in range(self.num_levels + 1)], axis=1)
        table = level_relevance(counts, kind=kind, alpha=alpha, weights=weights)
        return np.take_along_axis(table, shared, axis=1)

    def _class_ids(self, classes: ArrayLike) -> IntArray:
        ids = np.asarray(classes, dtype=np.int64).reshape(-1)
        if ids.size and (ids.min() < 0 or ids.max() >= self.num_classes):
            raise ValueError(f"Class ids must lie in 0..{self.num_classes - 1}.")
        return ids


def level_relevance(
    counts: IntArray,
    *,
    kind: Relevance = "pop",
    alpha: float = 1.0,
    weights: Sequence[float] | None = None,
) -> NDArray[np.float64]:
    """Returns (Q, L + 1): the relevance of items that share 0..L levels with each query.

    With n_l the number of items that share exactly l levels with the query:
    `pop`: (l / L)^alpha / n_l, and 0 for l = 0;
    `map`: sum over levels p <= l of w_p / (n_p + ... + n_L), which makes hierarchical AP the
    weighted sum of the levels' APs.

    Args:
        counts: (Q, L + 1): n_0..n_L of every query.
        kind: `pop` or `map`.
        alpha: Exponent of `pop`, > 0. Above 1 it favours the fine level.
        weights: L weights of `map`, coarsest first; equal weights of 1 / L if not given.

    References:
        Ramzi et al., Hierarchical Average Precision Training for Pertinent Image Retrieval, ECCV
        2022, arXiv:2207.04873.
    """
    depth = counts.shape[1] - 1
    if kind == "pop":
        if not alpha > 0:
            raise ValueError(f"`alpha` must be > 0, but got {alpha}.")
        popular: NDArray[np.float64] = (np.arange(depth + 1) / depth) ** alpha
        return popular / np.maximum(counts, 1)
    if kind != "map":
        raise ValueError(f"`kind` must be 'pop' or 'map', but got '{kind}'.")
    share = np.full(depth, 1.0 / depth) if weights is None else np.asarray(weights, float)
    if share.shape != (depth,):
        raise ValueError(f"`weights` must be {depth} numbers, but got {share.shape}.")
    at_least = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    steps = share / np.maximum(at_least, 1)
    return np.concatenate([np.zeros((len(steps), 1)), steps.cumsum(axis=1)], axis=1)


def default_level_names(depth: int) -> tuple[str, ...]:
    """Returns names for `depth` levels that have none of their own."""
    return tuple(f"level_{level}" for level in range(depth))


def _check(
    paths: IntArray, names: tuple[tuple[str, ...], ...], level_names: tuple[str, ...]
) -> None:
    if paths.ndim != 2 or not paths.size:
        raise ValueError(f"`paths` must be (classes, levels), but got shape {paths.shape}.")
    if len(names) != paths.shape[1] or len(level_names) != paths.shape[1]:
        raise ValueError("`names` and `level_names` must have one entry per level.")
    if not np.array_equal(paths[:, -1], np.arange(len(paths))):
        raise ValueError("The last column of `paths` must be 0..C-1.")
    for level, column in enumerate(paths.T):
        if not np.array_equal(np.unique(column), np.arange(len(names[level]))):
            raise ValueError(f"Labels of level {level} must be 0..{len(names[level]) - 1}.")
    for level in range(1, paths.shape[1]):
        pairs = np.unique(paths[:, level - 1 : level + 1], axis=0)
        if len(np.unique(pairs[:, 1])) != len(pairs):
            raise ValueError(f"A label of level {level} has two parents.")

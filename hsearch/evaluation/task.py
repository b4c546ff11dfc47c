"""Who retrieves what: queries, gallery, and how many images of each level a query can find."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hsearch.errors import DatasetError

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class RetrievalTask:
    """Queries and gallery of one evaluation.

    Attributes:
        query_rows: (Q,) rows of the images that query.
        gallery_rows: (N,) rows of the images that are retrieved.
        query_paths: (Q, L) labels, coarsest level first, numbered so that two labels are equal
            only if all coarser ones are.
        gallery_paths: (N, L) labels of the same numbering.
        own: (Q,) where each query stands in the gallery, -1 where it does not.
    """

    query_rows: IntArray
    gallery_rows: IntArray
    query_paths: IntArray
    gallery_paths: IntArray
    own: IntArray

    @classmethod
    def of(
        cls,
        labels: ArrayLike,
        length: int,
        queries: BoolArray | None = None,
        gallery: BoolArray | None = None,
    ) -> "RetrievalTask":
        """Builds the task of `length` images with labels (length,) or (length, L) and two masks.

        Raises:
            DatasetError: Lengths differ, a mask is empty, or no query has a relevant image.
        """
        table = np.asarray(labels)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or len(table) != length or not table.shape[1]:
            raise DatasetError(
                f"Every embedding needs one row of labels, but got labels of shape {table.shape} "
                f"for {length} embeddings."
            )
        query_rows, gallery_rows = (
            _rows(queries, length, "queries"),
            _rows(gallery, length, "gallery"),
        )
        paths = _number(table)
        position = np.full(length, -1, dtype=np.int64)
        position[gallery_rows] = np.arange(len(gallery_rows))
        task = cls(
            query_rows, gallery_rows, paths[query_rows], paths[gallery_rows], position[query_rows]
        )
        if not task.relevant()[:, -1].any():
            raise DatasetError(
                f"Retrieval needs at least one query whose finest label occurs among the other "
                f"images, but none of {len(query_rows)} has one; give classes of two or more "
                "images, or leave that level out."
            )
        return task

    @property
    def num_levels(self) -> int:
        """Number of levels, at least 1."""
        return int(self.query_paths.shape[1])

    def relevant(self) -> IntArray:
        """Returns (Q, L): the gallery images with the query's label, without itself."""
        columns = []
        for own_label, labels in zip(self.query_paths.T, self.gallery_paths.T, strict=True):
            largest = max(own_label.max(), labels.max())
            columns.append(np.bincount(labels, minlength=largest + 1)[own_label])
        counts: IntArray = np.stack(columns, axis=1) - (self.own >= 0)[:, None]
        return counts

    def level_counts(self) -> IntArray:
        """Returns (Q, L + 1): the gallery images that share exactly 0..L labels, without itself."""
        whole = len(self.gallery_rows) - (self.own >= 0)
        at_least = np.column_stack([whole, self.relevant(), np.zeros_like(whole)])
        exactly: IntArray = at_least[:, :-1] - at_least[:, 1:]
        return exactly


def _rows(mask: BoolArray | None, length: int, name: str) -> IntArray:
    if mask is None:
        return np.arange(length)
    mask = np.asarray(mask)
    if mask.dtype != np.bool_ or mask.shape != (length,) or not mask.any():
        raise DatasetError(
            f"`{name}` must be {length} booleans, at least one of them true, but got shape "
            f"{mask.shape} of {mask.dtype} with {np.count_nonzero(mask)} set."
        )
    return np.flatnonzero(mask)


def _number(table: NDArray[np.generic]) -> IntArray:
    """Returns (N, L): numbers of the label paths, ascending with their parents' numbers."""
    numbers: list[IntArray] = []
    for column in table.T:
        _, ids = np.unique(column, return_inverse=True)
        if numbers:
            _, ids = np.unique(numbers[-1] * (ids.max() + 1) + ids, return_inverse=True)
        numbers.append(ids.astype(np.int64))
    return np.stack(numbers, axis=1)

"""Retrieval metrics of one label column, from nearest neighbours that arrive in blocks.

Conventions, equal to pytorch-metric-learning's: R is the number of references with the query's
label, without the query itself; queries with R = 0 count in no mean. With rel_i = 1 if the i-th
neighbour has the query's label, and Prec@i the share of such neighbours among the first i:

    precision_at_1  rel_1
    recall_at_k     1 if any of the first k neighbours is relevant
    r_precision     Prec@R
    map_at_r        (1 / R) sum over i <= R of Prec@i rel_i
    map             (1 / R) sum over all i of Prec@i rel_i

References:
    Musgrave, Belongie, Lim, A Metric Learning Reality Check, ECCV 2020, arXiv:2003.08505.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hsearch.errors import DatasetError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Average = Literal["queries", "classes"]

RECALL_AT = (1, 2, 4, 8)


class RetrievalScores:
    """Scores of every query under one label column, filled block by block.

    Memory is a few numbers per query, whatever the length of the neighbour lists.

    Args:
        query_labels: (Q,) labels.
        reference_labels: (N,) labels.
        own: (Q,) the index of each query among the references, -1 where it is none of them.
        recall_at: The k of recall_at_k.
        full_map: Whether to compute `map`, which needs the whole list of every query.

    Attributes:
        relevant: (Q,) R of every query.
        per_query: Metric name -> (Q,) scores; meaningless where R = 0.
        depth: How many neighbours the metrics need.

    Raises:
        DatasetError: No query has a relevant reference.
    """

    def __init__(
        self,
        query_labels: ArrayLike,
        reference_labels: ArrayLike,
        own: IntArray,
        *,
        recall_at: Sequence[int] = RECALL_AT,
        full_map: bool = False,
    ) -> None:
        query_labels, reference_labels = np.asarray(query_labels), np.asarray(reference_labels)
        both = np.concatenate([query_labels, reference_labels])
        names, ids = np.unique(both, return_inverse=True)
        self._query_ids = ids[: len(query_labels)]
        # The last entry is the label of "neighbour -1", which ends lists that are too short.
        self._reference_ids = np.append(ids[len(query_labels) :], -1)
        counts = np.bincount(self._reference_ids[:-1], minlength=len(names))
        self.relevant: IntArray = counts[self._query_ids] - (own >= 0)
        if not self.relevant.any():
            raise DatasetError(
                f"Retrieval needs at least one query whose label occurs among the other images, "
                f"but none of {len(query_labels)} has one; give classes of two or more images."
            )
        self._recall_at = tuple(recall_at)
        self._full_map = full_map
        longest = len(reference_labels)
        wanted = longest if full_map else max([int(self.relevant.max()), *self._recall_at])
        self.depth = min(wanted, longest)
        self.per_query: dict[str, FloatArray] = {
            name: np.zeros(len(query_labels)) for name in self._names()
        }

    def add(self, rows: slice, neighbors: IntArray) -> None:
        """Scores the queries of `rows` by their neighbours (q, k), nearest first, k >= depth."""
        hits = self._reference_ids[neighbors[:, : self.depth]] == self._query_ids[rows, None]
        query, position = np.nonzero(hits)
        num_hits = np.bincount(query, minlength=len(hits))
        first_of_query = np.cumsum(num_hits) - num_hits
        rank_among_hits = np.arange(len(query)) - first_of_query[query] + 1
        precision = rank_among_hits / (position + 1)
        relevant = np.maximum(self.relevant[rows], 1)

        def mean_over_relevant(values: FloatArray) -> FloatArray:
            return np.bincount(query, weights=values, minlength=len(hits)) / relevant

        within_r = position < relevant[query]
        first = np.full(len(hits), hits.shape[1])
        first[query[rank_among_hits == 1]] = position[rank_among_hits == 1]
        scores = self.per_query
        scores["precision_at_1"][rows] = first == 0
        scores["r_precision"][rows] = mean_over_relevant(within_r.astype(np.float64))
        scores["map_at_r"][rows] = mean_over_relevant(np.where(within_r, precision, 0.0))
        for k in self._recall_at:
            scores[f"recall_at_{k}"][rows] = first < min(k, hits.shape[1])
        if self._full_map:
            scores["map"][rows] = mean_over_relevant(precision)

    def means(self, average: Average = "queries") -> dict[str, float]:
        """Returns each metric's mean over the queries, or over the means of their classes."""
        counted = self.relevant > 0
        if average == "queries":
            return {name: float(values[counted].mean()) for name, values in self.per_query.items()}
        ids = self._query_ids[counted]
        sizes = np.bincount(ids)
        present = sizes > 0
        means = {}
        for name, values in self.per_query.items():
            sums = np.bincount(ids, weights=values[counted])
            means[name] = float((sums[present] / sizes[present]).mean())
        return means

    def _names(self) -> list[str]:
        recalls = [f"recall_at_{k}" for k in self._recall_at]
        return [
            "map_at_r",
            "r_precision",
            "precision_at_1",
            *recalls,
            *(["map"] if self._full_map else []),
        ]

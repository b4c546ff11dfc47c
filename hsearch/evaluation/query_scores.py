"""Every metric of every query, filled block by block, and their means."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import hsearch.distributed as distributed
from hsearch.evaluation.metrics import level_scores
from hsearch.evaluation.query_table import QueryTable
from hsearch.evaluation.task import BoolArray, IntArray, RetrievalTask
from hsearch.results import ALL_LEVEL_METRICS, Metrics, level_prefix, metric_names

Average = Literal["queries", "classes"]


class QueryScores:
    """Scores of all queries by all metrics, 0 until they are set.

    Args:
        task: Queries and gallery.
        recall_at: The k of recall_at_k.
        whole_list: Whether whole rankings are scored: adds the metrics that need them.

    Attributes:
        relevant: (Q, L) the relevant images of every query at every level.
    """

    def __init__(self, task: RetrievalTask, recall_at: Sequence[int], *, whole_list: bool) -> None:
        self.task, self.relevant = task, task.relevant()
        self.recall_at, self.whole_list = tuple(recall_at), whole_list
        names = metric_names(task.num_levels, recall_at, whole_list=whole_list)
        self._values = {name: np.zeros(len(task.query_rows)) for name in names}

    def score_level(self, level: int, rows: slice | IntArray, ranks: Tensor) -> None:
        """Scores the queries of `rows` at one level by the ranks (q, W) of its images."""
        relevant = torch.from_numpy(self.relevant[rows, level]).to(ranks.device)
        values = level_scores(ranks, relevant, self.recall_at, whole_list=self.whole_list)
        self.put(rows, values, level_prefix(level, self.task.num_levels))

    def put(self, rows: slice | IntArray, values: dict[str, Tensor], prefix: str = "") -> None:
        """Sets scores (q,) of the queries of `rows`."""
        for name, found in values.items():
            self._values[prefix + name][rows] = found.cpu().numpy()

    def join(self) -> None:
        """Adds what the other ranks have scored; everything else is still 0."""
        parts = distributed.gather_objects(self._values)
        self._values = {
            name: np.sum([part[name] for part in parts], axis=0) for name in self._values
        }

    def means(self, average: Average) -> Metrics:
        """Returns each metric's mean over the queries to which it applies; 0 if there are none."""
        means = {}
        for name, counted in self._counted():
            classes = self.task.query_paths[counted, self._level(name)]
            values = self._values[name][counted]
            means[name] = _mean(values, classes if average == "classes" else None)
        return means

    def table(self) -> QueryTable:
        """Returns the scores query by query."""
        values = {
            name: np.where(counted, self._values[name], np.nan).astype(np.float32)
            for name, counted in self._counted()
        }
        return QueryTable(self.task.query_rows, values)

    def _counted(self) -> Iterator[tuple[str, BoolArray]]:
        """Yields every metric and (Q,) to which queries it applies."""
        can_break = (self.task.level_counts() > 0).sum(axis=1) > 1
        for name in self._values:
            level = 0 if name in ALL_LEVEL_METRICS else self._level(name)
            counted = self.relevant[:, level] > 0
            yield name, counted & can_break if name == "h_violations" else counted

    def _level(self, name: str) -> int:
        """The level whose labels a metric is about; the finest for those over all levels."""
        prefix = name[: name.find("/") + 1]
        levels = self.task.num_levels
        return next(n for n in reversed(range(levels)) if level_prefix(n, levels) == prefix)


def _mean(values: NDArray[np.float64], classes: IntArray | None) -> float:
    if not values.size:
        return 0.0
    if classes is None:
        return float(values.mean())
    _, ids = np.unique(classes, return_inverse=True)
    return float((np.bincount(ids, weights=values) / np.bincount(ids)).mean())

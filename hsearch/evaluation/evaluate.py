"""How well embeddings retrieve images of the same label, at every level of the labels."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

import hsearch.distributed as distributed
from hsearch.evaluation.hierarchical import H_NAMES, HierarchicalScores
from hsearch.evaluation.metrics import RECALL_AT, level_metric_names, level_scores, ranks_of_hits
from hsearch.evaluation.neighbors import FAISS_LARGEST_K, MEMORY_BUDGET, neighbor_blocks
from hsearch.evaluation.rankings import Rankings
from hsearch.evaluation.scores import Points
from hsearch.evaluation.task import BoolArray, IntArray, RetrievalTask
from hsearch.geometry import Geometry
from hsearch.results import Metrics

Average = Literal["queries", "classes"]


def retrieval_metrics(
    embeddings: Points,
    labels: ArrayLike,
    *,
    geometry: Geometry = "sphere",
    curvature: float = 0.0,
    queries: BoolArray | None = None,
    gallery: BoolArray | None = None,
    recall_at: Sequence[int] = RECALL_AT,
    whole_list: bool = False,
    alpha: float = 1.0,
    average: Average = "queries",
    sharded: bool = False,
    memory_budget: int = MEMORY_BUDGET,
) -> Metrics:
    """Returns the metrics of exact retrieval, defined in metrics.py and hierarchical.py.

    Without masks every image queries all others. An image that is both query and gallery never
    retrieves itself. Images at equal distance are ranked by their row.

    Args:
        embeddings: (N, D) floats, NumPy or torch; normalise them first for cosine retrieval.
        labels: (N,) or (N, L), coarsest level first. A label stands for its whole path: `red` of
            `car` is not `red` of `bus`.
        geometry: `sphere` (euclidean distance) or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.
        queries: (N,) booleans, which rows query; all if not given.
        gallery: (N,) booleans, which rows are retrieved; all if not given.
        recall_at: The k of recall_at_k.
        whole_list: Whether to rank the whole gallery for every query, for `ap` and `asi` of every
            level and the metrics over all levels, whose names begin with `h_`.
        alpha: Exponent of H-AP's relevance, > 0; above 1 it favours the fine level.
        average: Over `queries`, or over the means of `classes` (labels of each level; of the
            finest for the metrics over all levels).
        sharded: Whether every rank of the process group calls this with the same arguments; each
            then takes a part of the queries, and all return the whole result.
        memory_budget: Bytes that the search may take at a time, beside copies of the embeddings.

    Returns:
        The finest level under the plain names such as `map_at_r`, the metrics over all levels as
        `h_ap` and the like, level l of the coarser ones as `level_l/map_at_r`, 0 the coarsest.

    Raises:
        DatasetError: No query has a relevant image, or lengths differ.
        DivergedError: An embedding is not finite.
        ConfigError: An embedding lies outside of the ball.
    """
    task = RetrievalTask.of(labels, len(embeddings), queries, gallery)
    scores = _QueryScores(task, recall_at, whole_list=whole_list)
    share = (distributed.rank(), distributed.world_size()) if sharded else (0, 1)
    deepest = max(int(scores.relevant.max()), *recall_at, 1) + 1
    if whole_list or deepest >= FAISS_LARGEST_K:
        # Every thread works on a tile of its own.
        threads = torch.get_num_threads() if _on_cpu(embeddings) else 1
        rankings = Rankings(
            embeddings,
            task,
            geometry=geometry,
            curvature=curvature,
            memory_budget=memory_budget // threads,
        )
        _score_rankings(scores, rankings, share, alpha)
    else:
        depth = min(deepest - 1, len(task.gallery_rows))
        _score_lists(scores, embeddings, depth, share, geometry, curvature, memory_budget)
    if sharded:
        scores.join()
    return scores.means(average)


class _QueryScores:
    """Every metric of every query; blocks fill it in any order."""

    def __init__(self, task: RetrievalTask, recall_at: Sequence[int], *, whole_list: bool) -> None:
        self.task, self.relevant = task, task.relevant()
        self.recall_at, self.whole_list = tuple(recall_at), whole_list
        self._level_names = level_metric_names(recall_at, whole_list=whole_list)
        finest = task.num_levels - 1
        names = list(self._level_names) + (list(H_NAMES) if whole_list else [])
        for level in reversed(range(finest)):
            names += [f"level_{level}/{name}" for name in self._level_names]
        self._values = {name: np.zeros(len(task.query_rows)) for name in names}

    def put(self, level: int | None, rows: slice | IntArray, values: dict[str, Tensor]) -> None:
        """Sets scores (q,) of the queries of `rows` at a level, or over all levels."""
        finest = self.task.num_levels - 1
        prefix = "" if level in (None, finest) else f"level_{level}/"
        for name, found in values.items():
            self._values[prefix + name][rows] = found.cpu().numpy()

    def level(self, level: int, rows: slice | IntArray, ranks: Tensor) -> None:
        """Scores the queries of `rows` at one level by the ranks (q, W) of its images."""
        relevant = torch.from_numpy(self.relevant[rows, level]).to(ranks.device)
        self.put(
            level,
            rows,
            level_scores(ranks, relevant, self.recall_at, whole_list=self.whole_list),
        )

    def join(self) -> None:
        """Adds what the other ranks have scored; everything else is still 0."""
        parts = distributed.gather_objects(self._values)
        self._values = {
            name: np.sum([part[name] for part in parts], axis=0) for name in self._values
        }

    def means(self, average: Average) -> Metrics:
        """Returns each metric's mean over the queries to which it applies; 0 if there are none."""
        counts = self.task.level_counts()
        can_break = (counts > 0).sum(axis=1) > 1
        means = {}
        for name, values in self._values.items():
            level = int(name.split("/")[0].removeprefix("level_")) if "/" in name else -1
            relevant = self.relevant[:, 0 if name in H_NAMES else level] > 0
            counted = relevant & can_break if name == "h_violations" else relevant
            classes = self.task.query_paths[counted, level]
            means[name] = _mean(values[counted], classes if average == "classes" else None)
        return means


def _score_lists(
    scores: _QueryScores,
    embeddings: Points,
    depth: int,
    share: tuple[int, int],
    geometry: Geometry,
    curvature: float,
    memory_budget: int,
) -> None:
    task = scores.task
    part = np.array_split(np.arange(len(task.query_rows)), share[1])[share[0]]
    if not part.size:
        return
    blocks = neighbor_blocks(
        embeddings[task.query_rows[part]],
        embeddings[task.gallery_rows],
        depth,
        own=task.own[part],
        geometry=geometry,
        curvature=curvature,
        memory_budget=memory_budget,
    )
    # The last row is the label of "neighbour -1", which ends lists that are too short.
    paths = np.vstack([task.gallery_paths, np.full(task.num_levels, -1)])
    for block, neighbors in blocks:
        rows = slice(part[0] + block.start, part[0] + block.stop)
        for level in range(task.num_levels):
            hits = paths[neighbors, level] == task.query_paths[rows, level, None]
            scores.level(level, rows, ranks_of_hits(torch.from_numpy(hits)))


def _score_rankings(
    scores: _QueryScores, rankings: Rankings, share: tuple[int, int], alpha: float
) -> None:
    task = scores.task
    together = HierarchicalScores(
        task.level_counts(), task.own >= 0, alpha=alpha, device=rankings.device
    )

    def score(tile: slice) -> None:
        for block in rankings.blocks(tile):
            for level in range(task.num_levels):
                ranks = ranks_of_hits(block.levels > level, block.ranks)
                scores.level(level, block.queries, ranks)
            if scores.whole_list:
                numbers = torch.from_numpy(block.queries).to(rankings.device)
                values = together.scores(numbers, block.ranks, block.levels)
                scores.put(None, block.queries, values)

    _each(score, rankings.tiles()[share[0] :: share[1]], on_cpu=rankings.device.type == "cpu")


def _each(work: Callable[[slice], None], tiles: Sequence[slice], *, on_cpu: bool) -> None:
    """Works on all tiles: on the CPU each in one thread, as many at a time as torch has threads.

    Threads that share nothing waste no time in waiting for each other at every operation, and the
    result does not depend on their number.
    """
    threads = torch.get_num_threads()
    if not on_cpu or threads == 1:
        for tile in tiles:
            work(tile)
        return
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(threads)
    try:
        for _ in pool.map(work, tiles):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _on_cpu(points: Points) -> bool:
    return not isinstance(points, Tensor) or points.device.type == "cpu"


def _mean(values: NDArray[np.float64], classes: IntArray | None) -> float:
    if not values.size:
        return 0.0
    if classes is None:
        return float(values.mean())
    _, ids = np.unique(classes, return_inverse=True)
    return float((np.bincount(ids, weights=values) / np.bincount(ids)).mean())

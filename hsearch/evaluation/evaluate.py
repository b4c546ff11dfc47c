"""How well embeddings retrieve images of the same label, at every level of the labels."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

import hsearch.distributed as distributed
from hsearch.errors import ConfigError
from hsearch.evaluation.hierarchical import HierarchicalScores
from hsearch.evaluation.metrics import ranks_of_hits
from hsearch.evaluation.neighbors import FAISS_LARGEST_K, MEMORY_BUDGET, neighbor_blocks
from hsearch.evaluation.query_scores import Average, QueryScores
from hsearch.evaluation.query_table import QueryTable
from hsearch.evaluation.rankings import Rankings
from hsearch.evaluation.scores import Points, check_points
from hsearch.evaluation.task import BoolArray, IntArray, RetrievalTask
from hsearch.geometry import Geometry
from hsearch.results import RECALL_AT, Metrics

Progress = Callable[[int, int], None]

LARGEST_ALPHA = 100  # far beyond any use, and far from where its powers vanish


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
    progress: Progress | None = None,
    keep: Callable[[QueryTable], None] | None = None,
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
        alpha: Exponent of H-AP's relevance, in (0, 100]; above 1 it favours the fine level.
        average: Over `queries`, or over the means of `classes` (labels of each level; of the
            finest for the metrics over all levels).
        sharded: Whether every rank of the process group calls this with the same arguments; each
            then takes a part of the queries, and all return the whole result.
        memory_budget: Bytes that the search may take at a time, beside copies of the embeddings.
        progress: Told how many queries, of how many, have been scored (by this rank).
        keep: Given the scores query by query, whose means are returned.

    Returns:
        The finest level under the plain names such as `map_at_r`, the metrics over all levels as
        `h_ap` and the like, level l of the coarser ones as `level_l/map_at_r`, 0 the coarsest.

    Raises:
        DatasetError: No query has a relevant image, or lengths differ.
        DivergedError: An embedding is not finite.
        ConfigError: An embedding lies outside of the ball, or an argument out of its range.
    """
    _check_request(recall_at, alpha, average)
    check_points(embeddings, geometry, curvature)
    task = RetrievalTask.of(labels, len(embeddings), queries, gallery)
    scores = QueryScores(task, recall_at, whole_list=whole_list)
    share = (distributed.rank(), distributed.world_size()) if sharded else (0, 1)
    deepest = max(int(scores.relevant.max()), *recall_at, 1) + 1
    threads = torch.get_num_threads()
    if whole_list or deepest >= FAISS_LARGEST_K:
        rankings = Rankings(
            embeddings,
            task,
            geometry=geometry,
            curvature=curvature,
            memory_budget=memory_budget,
            workers=threads if _on_cpu(embeddings) else 1,
            ranks=share[1],
        )
        _score_rankings(scores, rankings, share, alpha, threads, progress)
    elif (part := np.array_split(np.arange(len(task.query_rows)), share[1])[share[0]]).size:
        blocks = neighbor_blocks(
            embeddings[task.query_rows[part]],
            embeddings[task.gallery_rows],
            min(deepest - 1, len(task.gallery_rows)),
            own=task.own[part],
            geometry=geometry,
            curvature=curvature,
            memory_budget=memory_budget,
        )
        _score_lists(scores, part, blocks, progress)
    if sharded:
        scores.join()
    if keep:
        keep(scores.table())
    return scores.means(average)


def _score_lists(
    scores: QueryScores,
    part: IntArray,
    blocks: Iterable[tuple[slice, IntArray]],
    progress: Progress | None,
) -> None:
    """Scores the queries `part` by the lists of their neighbours."""
    task = scores.task
    # The last row is the label of "neighbour -1", which ends lists that are too short.
    paths = np.vstack([task.gallery_paths, np.full(task.num_levels, -1)])
    for block, neighbors in blocks:
        rows = part[block]
        for level in range(task.num_levels):
            hits = paths[neighbors, level] == task.query_paths[rows, level, None]
            scores.score_level(level, rows, ranks_of_hits(torch.from_numpy(hits)))
        if progress:
            progress(block.stop, len(part))


def _score_rankings(
    scores: QueryScores,
    rankings: Rankings,
    share: tuple[int, int],
    alpha: float,
    threads: int,
    progress: Progress | None,
) -> None:
    """Scores the queries of every so many-th tile by whole rankings."""
    task = scores.task
    together = HierarchicalScores(
        task.level_counts(), task.own >= 0, alpha=alpha, device=rankings.device
    )

    def score(tile: slice) -> None:
        for block in rankings.blocks(tile):
            scores.score_level(0, block.queries, block.ranks.double())
            for level in range(1, task.num_levels):
                ranks = ranks_of_hits(block.levels > level, block.ranks)
                scores.score_level(level, block.queries, ranks)
            if scores.whole_list:
                numbers = torch.from_numpy(block.queries).to(rankings.device)
                values = together.scores(numbers, block.ranks, block.levels)
                scores.put(block.queries, values)

    tiles = rankings.tiles()[share[0] :: share[1]]
    ends = np.cumsum([tile.stop - tile.start for tile in tiles])
    for done, _ in zip(ends, _each(score, tiles, rankings.workers, threads), strict=True):
        if progress:
            progress(int(done), int(ends[-1]))


def _each(
    work: Callable[[slice], None], tiles: Sequence[slice], workers: int, threads: int
) -> Iterator[None]:
    """Works on all tiles, on several at a time each with one thread of its own.

    Threads that share nothing waste no time in waiting for each other at every operation, and the
    result does not depend on their number. Torch gets `threads` back at the end: not what it has
    now, which another evaluation may have set to 1 for a while.
    """
    if workers == 1:
        yield from map(work, tiles)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        torch.set_num_threads(1)
        yield from pool.map(work, tiles)
    finally:
        torch.set_num_threads(threads)
        pool.shutdown(cancel_futures=True)


def _check_request(recall_at: Sequence[int], alpha: float, average: Average) -> None:
    if not all(k >= 1 for k in recall_at):
        raise ConfigError(f"`recall_at` must be numbers from 1, but got {list(recall_at)}.")
    if not 0 < alpha <= LARGEST_ALPHA:
        raise ConfigError(f"`alpha` must lie in (0, {LARGEST_ALPHA}], but got {alpha}.")
    if average not in get_args(Average):
        raise ConfigError(f"`average` must be queries or classes, but got '{average}'.")


def _on_cpu(points: Points) -> bool:
    return not isinstance(points, Tensor) or points.device.type == "cpu"

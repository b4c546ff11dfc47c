"""How well embeddings retrieve images of the same label, at every level of the labels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hsearch.errors import DatasetError
from hsearch.evaluation.metrics import RECALL_AT, Average, RetrievalScores
from hsearch.evaluation.neighbors import MEMORY_BUDGET, Points, neighbor_blocks
from hsearch.geometry import Geometry
from hsearch.results import Metrics

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


def retrieval_metrics(
    embeddings: Points,
    labels: ArrayLike,
    *,
    geometry: Geometry = "sphere",
    curvature: float = 0.0,
    queries: BoolArray | None = None,
    gallery: BoolArray | None = None,
    recall_at: Sequence[int] = RECALL_AT,
    full_map: bool = False,
    average: Average = "queries",
    memory_budget: int = MEMORY_BUDGET,
) -> Metrics:
    """Returns P@1, recall@k, R-precision and MAP@R (see metrics.py) of exact retrieval.

    Without masks every image queries all others. An image that is both query and gallery never
    retrieves itself. One search serves all levels; it is as deep as the largest label of the
    coarsest level, so pass the finest column alone where the coarser ones are not wanted.

    Args:
        embeddings: (N, D) floats, NumPy or torch; normalise them first for cosine retrieval.
        labels: (N,) or (N, L), coarsest level first.
        geometry: `sphere` (euclidean distance) or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.
        queries: (N,) booleans, which rows query; all if not given.
        gallery: (N,) booleans, which rows are retrieved; all if not given.
        recall_at: The k of recall_at_k.
        full_map: Whether to add `map`, which ranks the whole gallery for every query.
        average: Over `queries`, or over the means of `classes` (labels of each level).
        memory_budget: Bytes that the search may take at a time.

    Returns:
        The finest level under the plain names such as `map_at_r`; level l of the coarser ones as
        `level_l/map_at_r`, 0 being the coarsest.

    Raises:
        DatasetError: No query has a relevant image, or lengths differ.
        DivergedError: An embedding is not finite.
    """
    paths = np.asarray(labels)
    paths = paths[:, None] if paths.ndim == 1 else paths
    query_rows = _rows(queries, len(embeddings), "queries")
    gallery_rows = _rows(gallery, len(embeddings), "gallery")
    if paths.ndim != 2 or len(paths) != len(embeddings):
        raise DatasetError(
            f"Every embedding needs one row of labels, but got labels of shape {paths.shape} for "
            f"{len(embeddings)} embeddings."
        )
    own = _positions(query_rows, gallery_rows, len(embeddings))
    levels = {
        _prefix(level, paths.shape[1]): RetrievalScores(
            column[query_rows], column[gallery_rows], own, recall_at=recall_at, full_map=full_map
        )
        for level, column in enumerate(paths.T)
    }
    blocks = neighbor_blocks(
        embeddings if queries is None else embeddings[query_rows],
        embeddings if gallery is None else embeddings[gallery_rows],
        max(scores.depth for scores in levels.values()),
        own=own,
        geometry=geometry,
        curvature=curvature,
        memory_budget=memory_budget,
    )
    for rows, neighbors in blocks:
        for scores in levels.values():
            scores.add(rows, neighbors)
    return {
        prefix + name: value
        for prefix, scores in reversed(levels.items())
        for name, value in scores.means(average).items()
    }


def _prefix(level: int, num_levels: int) -> str:
    return "" if level == num_levels - 1 else f"level_{level}/"


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


def _positions(query_rows: IntArray, gallery_rows: IntArray, length: int) -> IntArray:
    """Returns (Q,): where each query stands in the gallery, -1 where it does not."""
    position = np.full(length, -1, dtype=np.int64)
    position[gallery_rows] = np.arange(len(gallery_rows))
    return position[query_rows]

"""Exact nearest neighbours in blocks of queries; the only place that knows faiss.

On the sphere neighbours are ordered by the euclidean distance of the vectors as given, in the ball
by the Poincare distance. Lists shorter than FAISS_LARGEST_K come from faiss (float32, on a GPU if
faiss has one); longer lists, the ball, and lists whose end cuts through items at equal distance
come from scores.py. Items at equal distance are listed by ascending index; what differs by less
than the rounding of float32 may come in another order than in a whole ranking.
"""

import functools
import importlib.metadata
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hsearch.errors import ConfigError
from hsearch.evaluation.scores import TILE, Points, Scores, centred, check_points, sortable_keys
from hsearch.geometry import Geometry

IntArray = NDArray[np.int64]

FAISS_LARGEST_K = 2048  # faiss's own limit on GPUs, and where it becomes the slower way on CPUs
MEMORY_BUDGET = 2**30
LARGEST_BLOCK = 8192
FAISS_FEWEST_QUERIES = 32

_Search = Callable[[slice], tuple[NDArray[Any], IntArray]]


def nearest_neighbors(
    queries: Points,
    references: Points,
    k: int,
    *,
    exclude_self: bool,
    geometry: Geometry = "sphere",
    curvature: float = 0.0,
    memory_budget: int = MEMORY_BUDGET,
) -> IntArray:
    """Returns (Q, k): the indices of each query's nearest references, nearest first.

    Args:
        queries: (Q, D) floats, NumPy or torch.
        references: (N, D) floats.
        k: 1..N, or 1..N-1 if the query itself is excluded.
        exclude_self: Query i is reference i (Q = N) and is no neighbour of its own.
        geometry: `sphere` or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.
        memory_budget: Bytes that a block may take, beside copies of the points themselves.
    """
    own = np.arange(len(queries)) if exclude_self else None
    if k > len(references) - exclude_self:
        raise ValueError(f"There are fewer than `k` = {k} neighbours to find.")
    blocks = neighbor_blocks(
        queries,
        references,
        k,
        own=own,
        geometry=geometry,
        curvature=curvature,
        memory_budget=memory_budget,
    )
    return np.concatenate([indices for _, indices in blocks])


def neighbor_blocks(
    queries: Points,
    references: Points,
    k: int,
    *,
    own: IntArray | None = None,
    geometry: Geometry = "sphere",
    curvature: float = 0.0,
    memory_budget: int = MEMORY_BUDGET,
) -> Iterator[tuple[slice, IntArray]]:
    """Yields slices of the queries with the (q, k) indices of their nearest references.

    Args:
        queries: (Q, D) floats, NumPy or torch.
        references: (N, D) floats.
        k: Length of the lists, 1..N.
        own: (Q,) the index of each query among the references, -1 where it is none of them. It is
            left out of the list wherever it stands; a list that then has less than k items ends
            in -1 (only if k = N).
        geometry: `sphere` or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.
        memory_budget: Bytes that a block may take, beside copies of the points themselves.

    Raises:
        DivergedError: A point is not finite.
        ConfigError: A point lies outside of the ball, or two builds of faiss are installed.
    """
    if not 1 <= k <= len(references):
        raise ValueError(f"`k` must lie in 1..{len(references)}, but got {k}.")
    for points in (queries, references):
        check_points(points, geometry, curvature)
    return _blocks(queries, references, k, own, geometry, curvature, memory_budget)


def kmeans_assignments(points: Points, num_clusters: int, *, seed: int) -> IntArray:
    """Returns (N,): the cluster, 0..num_clusters - 1, of every point after euclidean k-means.

    All points take part, on the CPU in float32; the same seed gives the same clusters.

    Args:
        points: (N, D) floats, NumPy or torch.
        num_clusters: 1..N.
        seed: Of the choice of the first centres among the points, >= 0.

    Raises:
        DivergedError: A point is not finite.
    """
    if not 1 <= num_clusters <= len(points):
        raise ValueError(f"`num_clusters` must lie in 1..{len(points)}, but got {num_clusters}.")
    check_points(points, "sphere", 0.0)
    faiss, vectors = _faiss(), centred(points, points)[0].cpu().numpy()
    faiss.omp_set_num_threads(torch.get_num_threads())
    clustering = faiss.Kmeans(
        vectors.shape[1],
        num_clusters,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=len(vectors),  # faiss would draw 256 per cluster and leave the rest
    )
    clustering.train(vectors)
    assignments: IntArray = clustering.assign(vectors)[1]
    return assignments.astype(np.int64)


def _blocks(
    queries: Points,
    references: Points,
    k: int,
    own: IntArray | None,
    geometry: Geometry,
    curvature: float,
    memory_budget: int,
) -> Iterator[tuple[slice, IntArray]]:
    length = k if own is None else min(k + 1, len(references))
    scores = functools.cache(lambda: Scores(queries, references, geometry, curvature))
    if geometry == "sphere" and length < FAISS_LARGEST_K:
        search = _faiss_search(queries, references, length + 1)
        largest, bytes_per_query = LARGEST_BLOCK, 128 * length  # with what metrics.py makes of it
    else:
        search = _product_search(scores(), length + 1)
        largest = TILE
        bytes_per_query = 128 * length + scores().bytes_per_pair * len(references)
    block = int(np.clip(memory_budget // bytes_per_query, 1, largest))
    for start in range(0, len(queries), block):
        rows = slice(start, min(start + block, len(queries)))
        distances, indices = search(rows)
        _order_ties(distances, indices)
        cut = np.flatnonzero((distances[:, length - 1, None] == distances[:, length:]).any(axis=1))
        if cut.size:
            few = max(1, memory_budget // (48 * len(references)))
            indices[cut, :length] = _nearest_by_key(scores(), start + cut, length, few)
        nearest = indices[:, :length]
        yield rows, nearest if own is None else _without_own(nearest, own[rows], k)


def _faiss_search(queries: Points, references: Points, length: int) -> _Search:
    faiss = _faiss()
    vectors, targets = (side.cpu().numpy() for side in centred(queries, references))
    index = faiss.IndexFlatL2(targets.shape[1])
    if faiss.get_num_gpus():
        resources = faiss.StandardGpuResources()
        index = faiss.index_cpu_to_gpu(resources, torch.cuda.current_device(), index)
    index.add(targets)

    def search(rows: slice) -> tuple[NDArray[Any], IntArray]:
        # faiss brings an OpenMP of its own: let it follow the limit that torch was given.
        faiss.omp_set_num_threads(torch.get_num_threads())
        block = vectors[rows]
        # faiss rounds otherwise for few queries at a time.
        filled = np.resize(block, (max(len(block), FAISS_FEWEST_QUERIES), block.shape[1]))
        distances, indices = index.search(filled, min(length, len(targets)))
        return distances[: len(block)], indices[: len(block)]

    return search


def _product_search(scores: Scores, length: int) -> _Search:
    def search(rows: slice) -> tuple[NDArray[Any], IntArray]:
        block = scores(rows)
        nearest = block.topk(min(length, block.shape[1]), largest=False)
        return nearest.values.cpu().numpy(), nearest.indices.cpu().numpy()

    return search


def _order_ties(distances: NDArray[Any], indices: IntArray) -> None:
    """Orders items at equal distance by index, in place."""
    tied = np.flatnonzero((distances[:, 1:] == distances[:, :-1]).any(axis=1))
    if tied.size:
        order = np.lexsort((indices[tied], distances[tied]))
        indices[tied] = np.take_along_axis(indices[tied], order, axis=1)


def _nearest_by_key(scores: Scores, rows: IntArray, length: int, block: int) -> IntArray:
    """Returns (q, length): the lists of few or many queries, ties at their end by index too."""
    lists = []
    for start in range(0, len(rows), block):
        part = scores(rows[start : start + block])
        keys = sortable_keys(part, torch.arange(part.shape[1], device=part.device))
        lists.append(keys.topk(length, largest=False).values & 0xFFFFFFFF)
    indices: IntArray = torch.cat(lists).cpu().numpy()
    return indices


def _without_own(indices: IntArray, own: IntArray, k: int) -> IntArray:
    if indices.shape[1] == k:
        indices = np.pad(indices, ((0, 0), (0, 1)), constant_values=-1)
    kept = indices != own[:, None]
    kept[kept.all(axis=1), -1] = False
    remaining: IntArray = indices[kept].reshape(len(indices), k)
    return remaining


@functools.cache
def _faiss() -> Any:  # noqa: ANN401
    _check_one_faiss()
    import faiss

    return faiss


def _check_one_faiss() -> None:
    """faiss-cpu and faiss-gpu both own the package `faiss`: whichever came last half-wins."""
    names = {
        str(found.name).lower().replace("_", "-") for found in importlib.metadata.distributions()
    }
    builds = sorted(name for name in names if name.startswith(("faiss-cpu", "faiss-gpu")))
    if len(builds) > 1:
        raise ConfigError(
            f"Only one build of faiss may be installed, but found {' and '.join(builds)}; run "
            f"`pip uninstall -y {' '.join(builds)} && pip install {builds[-1]}`."
        )

"""What queries find, and which of them are worth showing."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsearch.evaluation.neighbors import neighbor_blocks
from hsearch.evaluation.scoring import Embedded
from hsearch.evaluation.task import RetrievalTask

IntArray = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Found:
    """The first neighbours of every query. Images are numbered by their rows in `Embedded`.

    Attributes:
        queries: (Q,) images that query.
        neighbors: (Q, k) images that each of them finds, nearest first.
        shared: (Q, k) how many levels the labels of both share, coarsest first.
        relevant: (Q,) how many images of its class a query could find.
    """

    queries: IntArray
    neighbors: IntArray
    shared: IntArray
    relevant: IntArray

    def quality(self, num_levels: int) -> Floats:
        """Returns (Q,) in 0..1: the share of right ones among the first min(k, relevant)."""
        places = np.arange(self.neighbors.shape[1])[None, :] < self.relevant[:, None]
        hits = ((self.shared == num_levels) & places).sum(axis=1)
        shares: Floats = hits / places.sum(axis=1).clip(1)
        return shares


def find_neighbors(embedded: Embedded, k: int) -> Found:
    """Finds the k nearest images of the gallery for every query, in blocks; never the query itself.

    k is lowered where the gallery has no more.
    """
    task = RetrievalTask.of(
        embedded.labels, len(embedded.embeddings), embedded.queries, embedded.gallery
    )
    most = len(task.gallery_rows) - int((task.own >= 0).any())
    blocks = neighbor_blocks(
        embedded.embeddings[task.query_rows],
        embedded.embeddings[task.gallery_rows],
        min(k, most),
        own=task.own,
        geometry=embedded.geometry,
        curvature=embedded.curvature,
    )
    neighbors = task.gallery_rows[np.concatenate([indices for _, indices in blocks])]
    labels = embedded.labels
    shared = (labels[task.query_rows][:, None] == labels[neighbors]).sum(axis=2)
    return Found(task.query_rows, neighbors, shared, task.relevant()[:, -1])


def choose_queries(
    found: Found, classes: IntArray, num_levels: int, rng: np.random.Generator, count: int = 3
) -> dict[str, IntArray]:
    """Returns the positions in `found` of the best, the worst and some random queries.

    Each class is there at most once. Queries are ordered by `Found.quality`, then by how many
    levels all their neighbours share with them, then at random; those that could find nothing are
    left out.

    Args:
        found: Neighbours of all queries.
        classes: (Q,) the class of every query.
        num_levels: Of the labels.
        rng: Of all draws.
        count: Of each kind.
    """
    chance = rng.permutation(len(found.queries))
    order = np.lexsort((chance, found.shared.sum(axis=1), found.quality(num_levels)))
    order = order[found.relevant[order] > 0]
    used: set[int] = set()
    best = _first_of_classes(order[::-1], classes, used, count)
    worst = _first_of_classes(order, classes, used, count)
    chosen = _first_of_classes(order[np.argsort(chance[order])], classes, used, count)
    return {"best": best, "worst": worst, "random": chosen}


def _first_of_classes(order: IntArray, classes: IntArray, used: set[int], count: int) -> IntArray:
    """The first positions whose classes were not used yet."""
    chosen: list[int] = []
    for position in order:
        label = int(classes[position])
        if len(chosen) < count and label not in used:
            used.add(label)
            chosen.append(int(position))
    return np.array(chosen, dtype=np.int64)

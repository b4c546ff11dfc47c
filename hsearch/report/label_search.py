"""What an image's embeddings of its labels find in other images.

All similarities are cosines. A pair is an image and a label that it has; pairs are numbered as in
`LabelEmbedded.pairs`, which are of the first images alone.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hsearch.evaluation.label_scoring import LabelEmbedded
from hsearch.evaluation.neighbors import nearest_neighbors, neighbor_blocks
from hsearch.report.retrieval import Found

MOST_QUERIES = 2000
"""Among how many pairs those worth showing are chosen; more of them take long on large data."""

OTHER_IMAGE, OTHER_LABEL, SAME_LABEL = 0, 1, 2
"""What a found pair shares with its query: nothing, its image has the label, it is the label's."""

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of images and labels with their embeddings.

    Attributes:
        images: (M,) ascending.
        labels: (M,) which label of it.
        directions: (M, D) embeddings of length 1, or 0 where an embedding is 0.
    """

    images: IntArray
    labels: IntArray
    directions: Floats

    @classmethod
    def of(cls, embedded: LabelEmbedded) -> "Pairs":
        """Returns the pairs of a method with an embedding per label."""
        assert embedded.embeddings is not None
        images, labels = embedded.pairs
        norms = np.linalg.norm(embedded.embeddings, axis=1, keepdims=True)
        safe = np.where(norms > 0, norms, 1)
        return cls(images, labels, (embedded.embeddings / safe).astype(np.float32, copy=False))


def find_pairs(pairs: Pairs, has: BoolArray, k: int, rng: np.random.Generator) -> Found:
    """Finds for every pair the k other images with the nearest embedding, in blocks.

    An image is found once: by that of its pairs which is the nearest. Where there are fewer than k
    images to find, a list ends in -1.

    Args:
        pairs: Of all images; of more than MOST_QUERIES some random ones query.
        has: (N, T) which labels each image has.
        k: Length of the lists.
        rng: Of those draws.

    Returns:
        Queries and neighbours are pairs; `shared` is OTHER_IMAGE, OTHER_LABEL or SAME_LABEL, and
        `relevant` counts the other images that have the label.
    """
    queries = np.sort(rng.permutation(len(pairs.images))[:MOST_QUERIES])
    most = int(np.bincount(pairs.images).max())
    length = min((k + 1) * most, len(pairs.images))  # so many hold k images beside the query's own
    references = _with_zeros_far(pairs.directions, 1)
    blocks = neighbor_blocks(references[queries], references, length)
    neighbors = np.concatenate(
        [
            [_other_images(pairs, *row, k) for row in zip(queries[rows], found, strict=True)]
            for rows, found in blocks
        ]
    )
    labels = pairs.labels[queries]
    same = pairs.labels[neighbors] == labels[:, None]
    near = has[pairs.images[neighbors], labels[:, None]]
    shared = np.where(same, SAME_LABEL, np.where(near, OTHER_LABEL, OTHER_IMAGE))
    shared[neighbors < 0] = OTHER_IMAGE
    return Found(queries, neighbors, shared, has.sum(axis=0)[labels] - 1)


def _other_images(pairs: Pairs, query: int, found: IntArray, k: int) -> IntArray:
    """Returns (k,) the first pairs of k images other than the query's, then -1."""
    images = pairs.images[found]
    first = np.sort(np.unique(images, return_index=True)[1])
    kept = found[first][images[first] != pairs.images[query]][:k]
    return np.pad(kept, (0, k - len(kept)), constant_values=-1)


@dataclass(frozen=True)
class FoundByTwo:
    """What two labels of an image find together.

    Attributes:
        image: Whose labels they are.
        labels: The two.
        neighbors: Images, best first.
        shared: How many of the two labels each of them has, 1 or 2.
    """

    image: int
    labels: tuple[int, int]
    neighbors: tuple[int, ...]
    shared: tuple[int, ...]


def choose_two_labels(
    has: BoolArray, rng: np.random.Generator, count: int = 3
) -> list[tuple[int, tuple[int, int]]]:
    """Returns at most `count` random images, each with two labels that another image has too.

    No two labels come twice, and no image.
    """
    together = has.T.astype(np.int64) @ has.astype(np.int64)
    used: set[tuple[int, int]] = set()
    chosen: list[tuple[int, tuple[int, int]]] = []
    for image in rng.permutation(np.flatnonzero(has.sum(axis=1) >= 2)).tolist():
        if len(chosen) == count:
            break
        labels = np.sort(rng.permutation(np.flatnonzero(has[image]))[:6]).tolist()
        twos = [two for two in combinations(labels, 2) if together[two] > 1 and two not in used]
        if twos:
            two = twos[int(rng.integers(len(twos)))]
            used.add(two)
            chosen.append((image, two))
    return chosen


def find_by_two(pairs: Pairs, image: int, labels: tuple[int, int], k: int) -> FoundByTwo:
    """Finds the images most like an image in two of its labels, by [z_a; z_b] as one vector.

    z_a and z_b are unit embeddings. There are embeddings only of labels that images have: those
    with at least one of the two are candidates, and the missing one is a zero vector, whose cosine
    is 0. Images are ordered by the mean of both cosines.

    Args:
        pairs: Of all images.
        image: That queries.
        labels: Two that it has.
        k: How many images are found, or as many as there are.
    """
    candidates = np.unique(pairs.images[np.isin(pairs.labels, labels)])
    dim = pairs.directions.shape[1]
    vectors = np.zeros((len(candidates), 2 * dim), dtype=np.float32)
    shared = np.zeros(len(candidates), dtype=np.int64)
    for part, label in enumerate(labels):
        own = pairs.labels == label
        places = np.searchsorted(candidates, pairs.images[own])
        vectors[places, part * dim : (part + 1) * dim] = pairs.directions[own]
        shared[places] += 1
    is_query = candidates == image
    others, points = np.flatnonzero(~is_query), _with_zeros_far(vectors, 2)
    nearest = nearest_neighbors(
        points[is_query], points[others], min(k, len(others)), exclude_self=False
    )
    found = others[nearest[0]]
    return FoundByTwo(
        image, labels, tuple(candidates[found].tolist()), tuple(shared[found].tolist())
    )


def _with_zeros_far(vectors: Floats, parts: int) -> Floats:
    """Returns vectors whose euclidean distances are ordered as the sums of their parts' cosines.

    Those of equal length are. A part of length 0 gets its length from a coordinate of its own, in
    which the others are 0: then vectors are (M, parts * D + parts), and as given otherwise.

    Args:
        vectors: (M, parts * D), every part of length 1 or 0.
        parts: How many there are.
    """
    lengths = np.linalg.norm(vectors.reshape(len(vectors), parts, -1), axis=2)
    empty = lengths < 0.5
    return np.hstack([vectors, empty.astype(np.float32)]) if empty.any() else vectors

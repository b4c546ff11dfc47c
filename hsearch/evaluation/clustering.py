"""How well clusters of the embeddings agree with the classes.

References:
    Strehl, Ghosh, Cluster Ensembles, JMLR 2002; normalisation by the arithmetic mean as in
    scikit-learn's normalized_mutual_info_score and in pytorch-metric-learning.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hsearch.errors import DatasetError
from hsearch.evaluation.neighbors import kmeans_assignments
from hsearch.evaluation.scores import Points
from hsearch.evaluation.tangent import tangent_vectors
from hsearch.geometry import Geometry


def nmi(
    embeddings: Points,
    labels: ArrayLike,
    *,
    geometry: Geometry = "sphere",
    curvature: float = 0.0,
    seed: int = 0,
) -> float:
    """Returns the mutual information, in 0..1, of the classes and as many k-means clusters.

    K-means is euclidean: on the vectors as given, or on the ball's tangent vectors at the origin.
    It finds a local optimum, so the value depends on the seed, and slightly on the order of rows.

    Args:
        embeddings: (N, D) floats, NumPy or torch; normalise them first for the sphere.
        labels: (N,) labels of one level.
        geometry: `sphere` or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.
        seed: Of the first centres, >= 0.

    Raises:
        DatasetError: There are no embeddings, or lengths differ.
        DivergedError: An embedding is not finite.
    """
    classes = np.asarray(labels)
    if classes.shape != (len(embeddings),) or not classes.size:
        raise DatasetError(
            f"Clusters need one label for each of at least one embedding, but got labels of shape "
            f"{classes.shape} for {len(embeddings)} embeddings."
        )
    vectors = tangent_vectors(embeddings, geometry=geometry, curvature=curvature)
    clusters = kmeans_assignments(vectors, len(np.unique(classes)), seed=seed)
    return normalised_mutual_information(classes, clusters)


def normalised_mutual_information(first: ArrayLike, second: ArrayLike) -> float:
    """Returns 2 I(first; second) / (H(first) + H(second)), in 0..1, of two partitions.

    I = H(first) + H(second) - H(both), with entropies of the shares of items per label and per
    pair of labels; only pairs that occur are counted, so memory is O(N). Two partitions of one part
    each are equal and score 1.

    Args:
        first: (N,) labels, N >= 1.
        second: (N,) labels.
    """
    first_ids, second_ids = _ids(first), _ids(second)
    if first_ids.shape != second_ids.shape or not first_ids.size:
        raise DatasetError(
            "Two partitions must label the same items, at least one, but got "
            f"{first_ids.size} and {second_ids.size} labels."
        )
    pairs = first_ids * (second_ids.max() + 1) + second_ids
    alone = _entropy(first_ids) + _entropy(second_ids)
    if alone == 0:
        return 1.0
    return float(np.clip(2 * (alone - _entropy(pairs)) / alone, 0.0, 1.0))


def _ids(labels: ArrayLike) -> NDArray[np.int64]:
    return np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int64)


def _entropy(ids: NDArray[np.int64]) -> float:
    """In nats; counts are sorted, so that the sum does not depend on the labels' names."""
    counts = np.sort(np.unique(ids, return_counts=True)[1])
    shares = counts / len(ids)
    return float(-(shares * np.log(shares)).sum())

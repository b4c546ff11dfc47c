"""Classification of images by frozen embeddings, for classes seen or unseen in training.

The network stays as it is; a classifier is fitted to the embeddings of labelled images (`train`)
and judged on other images (`test`) of the same classes. On classes that the network never saw and
that have no image split of their own, `halves` makes one.

References:
    Zhang, Xu, Xiong, Ramaiah, Use All The Labels: A Hierarchical Multi-Label Contrastive Learning
    Framework, CVPR 2022, arXiv:2204.13207 (the seen/unseen protocol).
"""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from hsearch.errors import ConfigError, DatasetError
from hsearch.evaluation.linear import fit_linear, predict_linear
from hsearch.evaluation.neighbors import MEMORY_BUDGET, nearest_neighbors
from hsearch.evaluation.scores import Points
from hsearch.evaluation.tangent import tangent_vectors
from hsearch.geometry import Geometry

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

TEMPERATURE = 0.07


def knn_accuracy(
    train: Points,
    train_labels: ArrayLike,
    test: Points,
    test_labels: ArrayLike,
    *,
    k: int = 20,
    geometry: Geometry = "sphere",
    curvature: float = 0.0,
    memory_budget: int = MEMORY_BUDGET,
) -> float:
    """Returns the share, in 0..1, of test images that their k nearest train images vote right.

    A neighbour at distance d votes for its class with the weight exp(-d^2 / (2 T)), T = 0.07. For
    vectors of norm 1 that is the field's exp(cosine / T) up to a factor; written with the distance
    it holds in the ball as well. Equal votes go to the class of the nearer neighbour.

    Args:
        train: (N, D) floats, NumPy or torch; normalise them first for cosine votes.
        train_labels: (N,) labels.
        test: (M, D) floats.
        test_labels: (M,) labels, each of which occurs in `train_labels`.
        k: 1..N; 20 is usual.
        geometry: `sphere` (euclidean distance) or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.
        memory_budget: Bytes that the search may take at a time.

    Raises:
        DatasetError: Lengths differ, or a test image's class has no train image.
        ConfigError: `k` is out of range, or a point lies outside of the ball.
        DivergedError: An embedding is not finite.

    References:
        Wu, Xiong, Yu, Lin, Unsupervised Feature Learning via Non-Parametric Instance
        Discrimination, CVPR 2018, arXiv:1805.01978 (the vote and its T).
        Caron et al., Emerging Properties in Self-Supervised Vision Transformers, ICCV 2021,
        arXiv:2104.14294 (k = 20).
    """
    train_ids, test_ids = _class_ids(train, train_labels, test, test_labels)
    if not 1 <= k <= len(train_ids):
        raise ConfigError(
            f"`k` must lie in 1..{len(train_ids)}, the number of train images, but got {k}."
        )
    neighbors = nearest_neighbors(
        test,
        train,
        k,
        exclude_self=False,
        geometry=geometry,
        curvature=curvature,
        memory_budget=memory_budget,
    )
    weights = _vote_weights(test, train, neighbors, geometry, curvature)
    classes = train_ids[neighbors]
    votes = np.stack([(weights * (classes == own[:, None])).sum(axis=1) for own in classes.T])
    # The first of the largest votes is the one whose neighbour is nearest.
    predicted = classes[np.arange(len(classes)), votes.argmax(axis=0)]
    return float((predicted == test_ids).mean())


def linear_accuracy(
    train: Points,
    train_labels: ArrayLike,
    test: Points,
    test_labels: ArrayLike,
    *,
    l2: float = 1.0,
    geometry: Geometry = "sphere",
    curvature: float = 0.0,
    memory_budget: int = MEMORY_BUDGET,
) -> float:
    """Returns the top-1 accuracy, in 0..1, of a linear classifier on frozen embeddings.

    Points of the ball are taken to the tangent space at the origin first. Every dimension is
    shifted and scaled to mean 0 and standard deviation 1 over the train images, so that the penalty
    means the same for embeddings of any scale.

    Args:
        train: (N, D) floats, NumPy or torch.
        train_labels: (N,) labels.
        test: (M, D) floats.
        test_labels: (M,) labels, each of which occurs in `train_labels`.
        l2: Weight of the penalty, > 0; see `fit_linear`.
        geometry: `sphere` or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.
        memory_budget: Bytes that the scores of a block of images may take.

    Raises:
        DatasetError: Lengths differ, or a test image's class has no train image.
        ConfigError: `l2` is out of range, or a point lies outside of the ball.
        DivergedError: An embedding is not finite.
    """
    train_ids, test_ids = _class_ids(train, train_labels, test, test_labels)
    features = tangent_vectors(train, geometry=geometry, curvature=curvature)
    probes = tangent_vectors(test, geometry=geometry, curvature=curvature)
    spread = features.std(dim=0, correction=0)
    mean, spread = features.mean(dim=0), torch.where(spread > 0, spread, 1.0)
    features, probes = (features - mean) / spread, (probes - mean) / spread
    weights, bias = fit_linear(features, train_ids, l2=l2, memory_budget=memory_budget)
    predicted = predict_linear(probes, weights, bias, memory_budget=memory_budget)
    return float((predicted == test_ids).mean())


def halves(labels: ArrayLike, *, seed: int) -> NDArray[np.bool_]:
    """Returns (N,): true for the random half of every class's images to train on, else to test.

    The larger half of an odd class trains, so a class of one image is not tested.

    Args:
        labels: (N,) labels.
        seed: >= 0; the same seed and labels give the same halves.
    """
    _, ids, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    order = np.lexsort((np.random.default_rng(seed).permutation(len(ids)), ids))
    first_of_class = np.cumsum(sizes) - sizes
    rank_in_class = np.empty(len(ids), dtype=np.int64)
    rank_in_class[order] = np.arange(len(ids)) - first_of_class[ids[order]]
    train: NDArray[np.bool_] = 2 * rank_in_class < sizes[ids]
    return train


def _class_ids(
    train: Points, train_labels: ArrayLike, test: Points, test_labels: ArrayLike
) -> tuple[IntArray, IntArray]:
    """Returns the labels (N,) and (M,) as numbers 0..C-1 of the C classes of `train`."""
    known, wanted = np.asarray(train_labels), np.asarray(test_labels)
    for name, points, labels in (("train", train, known), ("test", test, wanted)):
        if labels.shape != (len(points),) or not labels.size:
            raise DatasetError(
                f"Every {name} embedding needs one label, and there must be one at least, but got "
                f"labels of shape {labels.shape} for {len(points)} embeddings."
            )
    classes, train_ids = np.unique(known, return_inverse=True)
    missing = np.setdiff1d(wanted, classes)
    if missing.size:
        raise DatasetError(
            f"Test images must be of classes that have train images, but {missing.size} classes "
            f"have none (the first is '{missing[0]}'); split each class's images with `halves`."
        )
    return train_ids, np.searchsorted(classes, wanted)


def _vote_weights(
    test: Points, train: Points, neighbors: IntArray, geometry: Geometry, curvature: float
) -> FloatArray:
    """Returns (M, k): exp(-(d^2 - smallest d^2 of the row) / (2 T)), 1 for the nearest.

    One column at a time: memory is that of the points, not k times as much.
    """
    queries, references = (tangent_vectors(points).cpu().numpy() for points in (test, train))
    columns = [
        _squared_distances(queries, references[column], geometry, curvature)
        for column in neighbors.T
    ]
    squares = np.stack(columns, axis=1)
    weights: FloatArray = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / 2 / TEMPERATURE)
    return weights


def _squared_distances(
    x: FloatArray, y: FloatArray, geometry: Geometry, curvature: float
) -> FloatArray:
    """Returns (N,): the squared distances of rows i of x and y (N, D); cf. `poincare_order`."""
    gaps: FloatArray = ((x - y) ** 2).sum(axis=1)
    if geometry == "sphere":
        return gaps
    room = (1 - curvature * (x * x).sum(axis=1)) * (1 - curvature * (y * y).sum(axis=1))
    squares: FloatArray = np.arccosh(1 + 2 * curvature * gaps / room) ** 2 / curvature
    return squares

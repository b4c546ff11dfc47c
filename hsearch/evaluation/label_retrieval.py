"""Retrieval by label embeddings: does an image's embedding of a label find the same label?

A method of multi-label data gives an image one embedding per label. Those of the labels that
images really have are pooled: M embeddings, one per pair of image and label. Each of them queries
all the others by cosine similarity; relevant are those of its label, which are of other images.
Other labels of the query's own image are candidates like all others, and never relevant. With R
the number of relevant ones and TP the number of them among the k nearest:

    precision_at_k = TP / k, or TP / (M - 1) where there are fewer than k to retrieve
    recall_at_k    = TP / min(k, R)

Both are means over the queries. A query with R = 0 (a label that one image has) counts in neither
mean. Embeddings at equal distance are ranked by their row. (`recall_at_k` of metrics.py is another
quantity: whether there is any relevant one among the k nearest.)

The paper takes "all the class embeddings" of the first 1000 images of MS-COCO. They must be those
of the labels that the images have: with all 80 of every image each query had R = 999 and both
metrics were equal, which they are not in its table 6. It does not say whether a query retrieves
itself; here it never does, as in all retrieval.

References:
    Contrastively Enforcing Distinctiveness for Multi-Label Classification (MulCon), submitted to
    ICLR 2022, appendix A.4 and table 6.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hsearch.errors import ConfigError, DatasetError, DivergedError
from hsearch.evaluation.neighbors import MEMORY_BUDGET, neighbor_blocks
from hsearch.evaluation.scores import Points, check_points
from hsearch.results import Metrics

IntArray = NDArray[np.int64]

RETRIEVE_AT = (3, 5, 10, 15, 20)
"""The k of the paper's table 6."""


def label_embeddings(embeddings: Tensor, labels: Tensor) -> tuple[Tensor, IntArray]:
    """Returns (M, D), the embeddings of labels that images have, and (M,), which labels these are.

    Args:
        embeddings: (N, T, D) of every image and label.
        labels: (N, T) multi-hot.
    """
    rows, columns = torch.nonzero(labels, as_tuple=True)
    return embeddings[rows, columns], columns.cpu().numpy()


def label_retrieval_metrics(
    embeddings: Points,
    labels: ArrayLike,
    *,
    at: Sequence[int] = RETRIEVE_AT,
    memory_budget: int = MEMORY_BUDGET,
) -> Metrics:
    """Returns `label_precision_at_k` and `label_recall_at_k`, in 0..1, of exact retrieval.

    Args:
        embeddings: (M, D) floats, NumPy or torch, one per pair of image and label; of any length
            but 0.
        labels: (M,) the label of each.
        at: The k, each at least 1.
        memory_budget: Bytes that the search may take at a time, beside copies of the embeddings.

    Raises:
        DatasetError: Lengths differ, or no label has two embeddings.
        DivergedError: An embedding is not finite, or 0.
        ConfigError: A k is below 1.
    """
    if not at or min(at) < 1:
        raise ConfigError(f"`at` must be numbers from 1, but got {list(at)}.")
    check_points(embeddings, "sphere", 0.0)
    ids, relevant = _relevant(np.asarray(labels), len(embeddings))
    points = _directions(embeddings)
    others = len(ids) - 1
    blocks = neighbor_blocks(
        points, points, min(max(at), others), own=np.arange(len(ids)), memory_budget=memory_budget
    )
    sums = np.zeros((2, len(at)))
    for rows, neighbors in blocks:
        queries = np.flatnonzero(relevant[rows] > 0)
        wanted = relevant[rows][queries, None]
        hits = (ids[neighbors[queries]] == ids[rows][queries, None]).cumsum(axis=1)
        lengths = np.minimum(at, others)
        found = hits[:, lengths - 1]
        sums[0] += (found / lengths).sum(axis=0)
        sums[1] += (found / np.minimum(at, wanted)).sum(axis=0)
    precision, recall = sums / np.count_nonzero(relevant)
    return {
        **{f"label_precision_at_{k}": float(precision[i]) for i, k in enumerate(at)},
        **{f"label_recall_at_{k}": float(recall[i]) for i, k in enumerate(at)},
    }


def _relevant(labels: NDArray[np.int64], count: int) -> tuple[IntArray, IntArray]:
    """Returns the labels as numbers from 0, and R of every query; both (M,)."""
    if labels.shape != (count,):
        raise DatasetError(
            f"Every embedding needs one label, but got labels of shape {labels.shape} for {count} "
            "embeddings."
        )
    _, ids, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if counts.max() < 2:
        raise DatasetError(
            "Retrieval by labels needs a label that two images have, but every label has one image."
        )
    return ids, counts[ids] - 1


def _directions(embeddings: Points) -> Tensor:
    """Returns (M, D) of length 1: their euclidean distances are ordered as the cosines."""
    points = torch.as_tensor(embeddings).detach()
    points = points if points.dtype in (torch.float32, torch.float64) else points.float()
    norms = torch.linalg.vector_norm(points, dim=1, keepdim=True)
    if not bool((norms > 0).all()):
        raise DivergedError(
            "Embeddings of labels must have a direction, but some are 0; the training diverged, "
            "try a lower learning rate."
        )
    directions: Tensor = points / norms
    return directions

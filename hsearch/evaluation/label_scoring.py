"""Scoring images that have several labels each: what is scored, and by which metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hsearch.evaluation.label_retrieval import label_retrieval_metrics
from hsearch.evaluation.multilabel import MEMORY_BUDGET, LabelScores, label_scores
from hsearch.geometry import l2_normalise
from hsearch.results import Metrics

FIRST_IMAGES = 1000
"""Whose embeddings of labels are kept and retrieved, as in the paper's table 6."""

Floats = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelEmbedded:
    """What a network says about images with several labels each.

    Attributes:
        scores: (N, T) logits of every label.
        labels: (N, T) which labels the images have.
        label_names: T names.
        embeddings: (M, D), one per pair of image and label that it has, of the first
            `FIRST_IMAGES` images in the order of `pairs`; None for methods with one embedding per
            image.
    """

    scores: Floats
    labels: NDArray[np.bool_]
    label_names: tuple[str, ...]
    embeddings: Floats | None = None

    @property
    def labels_of_first(self) -> NDArray[np.bool_]:
        """(K, T) the labels of the images whose embeddings are kept."""
        return self.labels[:FIRST_IMAGES]

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """(M,) images and (M,) their labels, to which the embeddings belong."""
        images, labels = np.nonzero(self.labels_of_first)
        return images, labels

    def per_label(self, memory_budget: int = MEMORY_BUDGET) -> LabelScores:
        """Returns how well every label is found."""
        return label_scores(self.scores, self.labels, memory_budget=memory_budget)


def score_labels(embedded: LabelEmbedded, memory_budget: int = MEMORY_BUDGET) -> Metrics:
    """Returns the metrics of `label_scores` and, where there are embeddings, of label retrieval.

    The latter are left out where no label has two embeddings.
    """
    metrics = embedded.per_label(memory_budget).metrics()
    labels = embedded.pairs[1]
    if embedded.embeddings is not None and len(np.unique(labels)) < len(labels):
        metrics |= label_retrieval_metrics(embedded.embeddings, labels, memory_budget=memory_budget)
    return metrics


def join_labels(parts: Sequence[LabelEmbedded]) -> LabelEmbedded:
    """Returns images as several networks see them: mean logits, embeddings side by side."""
    first = parts[0]
    vectors = [part.embeddings for part in parts if part.embeddings is not None]
    units = [l2_normalise(torch.as_tensor(each)) for each in vectors]
    return replace(
        first,
        scores=np.mean([part.scores for part in parts], axis=0),
        embeddings=torch.cat(units, dim=1).numpy() if units else None,
    )


def guess_labels(count: int, trained: NDArray[np.bool_]) -> Floats:
    """Returns (N, T) logits of who knows how frequent labels are and does not look at images.

    Args:
        count: How many images N are guessed.
        trained: (M, T) of the images by which frequencies are known.
    """
    share = (trained.sum(axis=0) + 0.5) / (len(trained) + 1.0)
    return np.broadcast_to(np.log(share / (1 - share)), (count, len(share)))

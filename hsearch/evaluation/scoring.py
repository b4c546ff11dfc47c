"""Scoring embedded images: what is scored, by which protocol, and which metrics are wanted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from hsearch.errors import ConfigError
from hsearch.evaluation.classification import halves, knn_accuracy, linear_accuracy
from hsearch.evaluation.clustering import nmi
from hsearch.evaluation.evaluate import Progress, retrieval_metrics
from hsearch.evaluation.label_scoring import LabelEmbedded, join_labels, score_labels
from hsearch.evaluation.neighbors import MEMORY_BUDGET
from hsearch.evaluation.protocols import DymlSet, concatenated, dyml_metrics
from hsearch.evaluation.query_table import QueryTable
from hsearch.evaluation.scores import Points
from hsearch.evaluation.task import BoolArray, IntArray, RetrievalTask
from hsearch.geometry import Geometry
from hsearch.results import RECALL_AT, Metrics, level_prefix

Similarity = Literal["cosine", "euclidean", "poincare"]
ProtocolKind = Literal["self retrieval", "query/gallery", "one test set per level"]

_CPU = torch.device("cpu")
NEIGHBORS = 20  # that vote in k-NN classification, as is usual


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embedded images with all that it takes to score them.

    Attributes:
        embeddings: (N, D) floats, of norm 1 for `cosine`.
        labels: (N, L) ids, coarsest level first.
        level_names: L names.
        similarity: How images are ranked for a query.
        curvature: Of the Poincare ball, else 0.
        queries: (N,) which rows query; all if None.
        gallery: (N,) which rows are retrieved; all if None.
        test_sets: Name -> (N,) which rows belong to it, where every set is scored alone and by the
            finest label (DyML); none elsewhere.
    """

    embeddings: NDArray[Any]
    labels: IntArray
    level_names: tuple[str, ...]
    similarity: Similarity
    curvature: float = 0.0
    queries: BoolArray | None = None
    gallery: BoolArray | None = None
    test_sets: Mapping[str, BoolArray] = field(default_factory=dict)

    @property
    def geometry(self) -> Geometry:
        """As the search calls it: euclidean order of unit vectors is that of their cosines."""
        return "poincare" if self.similarity == "poincare" else "sphere"


@dataclass(frozen=True)
class ScoreOptions:
    """What to compute beside the fixed metrics.

    Attributes:
        recall_at: The k of recall_at_k.
        alpha: Exponent of the relevance of `h_ap`, > 0; above 1 it favours the fine levels.
        memory_budget: Bytes that a search may take at a time.
        classify: Whether to add `knn_accuracy` and `linear_accuracy` of every level. They learn
            from the gallery and are judged on the queries where no image is both, else from one
            half of each class's images and on the other.
        nmi: Whether to add `nmi` of every level.
        device: Where to rank.
        sharded: Whether every rank of the process group scores the same, each a part of it.
    """

    recall_at: tuple[int, ...] = RECALL_AT
    alpha: float = 1.0
    memory_budget: int = MEMORY_BUDGET
    classify: bool = False
    nmi: bool = False
    device: torch.device = _CPU
    sharded: bool = False


@dataclass(frozen=True)
class Protocol:
    """Who searches whom.

    Attributes:
        kind: Every image queries all others, marked queries search a marked gallery, or both of
            these inside each of several test sets.
        queries: How many images query.
        gallery: How many images are retrieved.
        queries_without_match: Queries whose finest label no other image of the gallery has; they
            count in no mean of that level.
    """

    kind: ProtocolKind
    queries: int
    gallery: int
    queries_without_match: int


AnyEmbedded = Embedded | LabelEmbedded


def score(
    embedded: AnyEmbedded,
    options: ScoreOptions,
    progress: Progress | None = None,
    keep: Callable[[QueryTable], None] | None = None,
) -> Metrics:
    """Returns all metrics of all levels; `progress` and `keep` as in `retrieval_metrics`.

    Where there are test sets, they are those of `dyml_metrics` instead, and for images with several
    labels those of `score_labels`; nothing is kept then.
    """
    if isinstance(embedded, LabelEmbedded):
        return score_labels(embedded, options.memory_budget)
    if embedded.test_sets:
        return _score_sets(embedded, options)
    metrics = retrieval_metrics(
        _points(embedded.embeddings, options.device),
        embedded.labels,
        geometry=embedded.geometry,
        curvature=embedded.curvature,
        queries=embedded.queries,
        gallery=embedded.gallery,
        recall_at=options.recall_at,
        whole_list=True,
        alpha=options.alpha,
        sharded=options.sharded,
        memory_budget=options.memory_budget,
        progress=progress,
        keep=keep,
    )
    num_levels = embedded.labels.shape[1]
    for level, labels in enumerate(embedded.labels.T):
        prefix = level_prefix(level, num_levels)
        if options.classify:
            accuracies = _accuracies(embedded, labels, options.memory_budget)
            metrics |= {prefix + name: value for name, value in accuracies.items()}
        if options.nmi:
            metrics[f"{prefix}nmi"] = nmi(
                embedded.embeddings,
                labels,
                geometry=embedded.geometry,
                curvature=embedded.curvature,
            )
    return metrics


def _points(embeddings: NDArray[Any], device: torch.device) -> Points:
    return embeddings if device.type == "cpu" else torch.from_numpy(embeddings).to(device)


def _score_sets(embedded: Embedded, options: ScoreOptions) -> Metrics:
    if options.classify or options.nmi:
        raise ConfigError(
            "Data with one test set per level are scored by AP, ASI and R@1 alone; leave "
            "--classify and --nmi out."
        )
    queries, gallery = embedded.queries, embedded.gallery
    sets = {
        name: DymlSet(
            embedded.embeddings[rows],
            embedded.labels[rows, -1],
            None if queries is None else queries[rows],
            None if gallery is None else gallery[rows],
        )
        for name, rows in embedded.test_sets.items()
    }
    return dyml_metrics(
        sets,
        geometry=embedded.geometry,
        curvature=embedded.curvature,
        memory_budget=options.memory_budget,
    )


def _accuracies(embedded: Embedded, labels: IntArray, memory_budget: int) -> Metrics:
    learnt, judged = _sides(embedded)
    sides = (
        embedded.embeddings[learnt],
        labels[learnt],
        embedded.embeddings[judged],
        labels[judged],
    )
    geometry, curvature = embedded.geometry, embedded.curvature
    k = min(NEIGHBORS, int(learnt.sum()))
    return {
        "knn_accuracy": knn_accuracy(
            *sides, k=k, geometry=geometry, curvature=curvature, memory_budget=memory_budget
        ),
        "linear_accuracy": linear_accuracy(
            *sides, geometry=geometry, curvature=curvature, memory_budget=memory_budget
        ),
    }


def _sides(embedded: Embedded) -> tuple[BoolArray, BoolArray]:
    """Which rows a classifier learns from, and which it is judged on."""
    queries, gallery = embedded.queries, embedded.gallery
    if queries is not None and gallery is not None and not (queries & gallery).any():
        return gallery, queries
    learnt = halves(embedded.labels[:, -1], seed=0)
    return learnt, ~learnt


def join(parts: Sequence[AnyEmbedded]) -> AnyEmbedded:
    """Returns the same images with the embeddings of several models side by side."""
    if labelled := [part for part in parts if isinstance(part, LabelEmbedded)]:
        return join_labels(labelled)
    return _join([part for part in parts if isinstance(part, Embedded)])


def _join(parts: Sequence[Embedded]) -> Embedded:
    first = parts[0]
    in_ball = first.similarity == "poincare"
    vectors = concatenated(
        [part.embeddings for part in parts],
        geometry=first.geometry,
        curvatures=[part.curvature for part in parts] if in_ball else (),
    )
    return replace(
        first,
        embeddings=vectors.numpy(),
        similarity="euclidean" if in_ball else "cosine",
        curvature=0.0,
    )


def protocol_of(embedded: Embedded) -> Protocol:
    """Returns who searches whom."""
    task = RetrievalTask.of(
        embedded.labels, len(embedded.embeddings), embedded.queries, embedded.gallery
    )
    masked = embedded.queries is not None or embedded.gallery is not None
    alone: ProtocolKind = "query/gallery" if masked else "self retrieval"
    return Protocol(
        kind="one test set per level" if embedded.test_sets else alone,
        queries=len(task.query_rows),
        gallery=len(task.gallery_rows),
        queries_without_match=int(np.count_nonzero(task.relevant()[:, -1] == 0)),
    )

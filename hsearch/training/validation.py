"""Scores of a network while it trains, by the task of its method."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.evaluation.label_scoring import score_labels
from hsearch.results import Metrics
from hsearch.spec import ImageSpec
from hsearch.training.embedding import embed_labels, embed_rows
from hsearch.training.setup import FoldData
from hsearch.training.step import TrainingStep

Task = Literal["retrieval", "multilabel"]


def validate(step: TrainingStep, data: FoldData, image: ImageSpec) -> Metrics | None:
    """Returns all metrics of the fold's validation images, if it has any; on every rank."""
    if not len(data.validation_rows):
        return None
    return _BY_TASK[step.method.task](step, data, image)


def _retrieval(step: TrainingStep, data: FoldData, image: ImageSpec) -> Metrics:
    embeddings = embed_rows(step, data.inputs, data.validation_rows, image)
    return retrieval_metrics(
        embeddings.to(next(step.parameters()).device),
        data.validation_labels,
        geometry=step.method.geometry,
        curvature=step.method.curvature,
        whole_list=True,
        sharded=True,
    )


def _multilabel(step: TrainingStep, data: FoldData, image: ImageSpec) -> Metrics:
    labels = np.asarray(data.validation_labels, dtype=np.bool_)
    names = data.hierarchy.names[-1]
    return score_labels(embed_labels(step, data.inputs, data.validation_rows, labels, names, image))


_BY_TASK: dict[Task, Callable[[TrainingStep, FoldData, ImageSpec], Metrics]] = {
    "retrieval": _retrieval,
    "multilabel": _multilabel,
}

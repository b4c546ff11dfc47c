"""Scores of several models or several test sets as one: fold models, and DyML's three sets.

References:
    Musgrave, Belongie, Lim, A Metric Learning Reality Check, ECCV 2020, arXiv:2003.08505
    (`separated` and `concatenated`).
    Sun et al., Dynamic Metric Learning: Towards a Scalable Metric Space to Accommodate Multiple
    Semantic Scales, CVPR 2021, arXiv:2103.11781 (DyML).
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hsearch.errors import ConfigError, DatasetError
from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.evaluation.neighbors import MEMORY_BUDGET
from hsearch.evaluation.scores import Points
from hsearch.evaluation.tangent import tangent_vectors
from hsearch.geometry import Geometry, l2_normalise
from hsearch.results import Metrics

DYML_METRICS = ("ap", "asi", "recall_at_1")


@dataclass(frozen=True, slots=True)
class Spread:
    """One metric over several models.

    Attributes:
        mean: Of the models' values.
        std: Their standard deviation with n - 1 in the denominator; None for a single model.
    """

    mean: float
    std: float | None


@dataclass(frozen=True, slots=True)
class DymlSet:
    """Embedded images of one test set and their labels at the one level that it tests.

    Attributes:
        embeddings: (N, D) floats, NumPy or torch.
        labels: (N,) labels.
        queries: (N,) booleans, which rows query; all if not given.
        gallery: (N,) booleans, which rows are retrieved; all if not given.
    """

    embeddings: Points
    labels: ArrayLike
    queries: NDArray[np.bool_] | None = None
    gallery: NDArray[np.bool_] | None = None


def separated(metrics: Sequence[Metrics]) -> dict[str, Spread]:
    """Returns the mean and spread of every metric over fold models that were scored one by one.

    Args:
        metrics: One per model, at least one, all with the same names.

    Raises:
        DatasetError: There is no model, or names differ.
    """
    if not metrics:
        raise DatasetError("The mean over fold models needs at least one model, but got none.")
    names = metrics[0].keys()
    for number, other in enumerate(metrics):
        if other.keys() != names:
            raise DatasetError(
                "Fold models must be scored by the same metrics, but model "
                f"{number} differs from model 0 in {', '.join(sorted(other.keys() ^ names))}; "
                "evaluate all of them in the same way."
            )
    return {name: _spread([model[name] for model in metrics]) for name in metrics[0]}


def concatenated(
    embeddings: Sequence[Points],
    *,
    geometry: Geometry = "sphere",
    curvatures: Sequence[float] = (),
) -> Tensor:
    """Returns (N, sum of D) float32: the fold models' embeddings of the same images, joined.

    On the sphere every part is scaled to norm 1 and divided by sqrt(n): rows have norm 1 and their
    cosine is the mean of the n parts' cosines. From the ball every part is taken to the tangent
    space at its origin and divided by sqrt(n). The product of several balls is no ball, so the
    result is compared by the euclidean distance in that tangent space, whose square is the mean of
    the parts': score the result with `geometry="sphere"` in both cases.

    Args:
        embeddings: One (N, D) per model, row i of each being the same image.
        geometry: Of the parts, `sphere` or `poincare`.
        curvatures: Of the parts' balls, one per model, > 0; none on the sphere.

    Raises:
        DatasetError: There is no model, or numbers of images differ.
        ConfigError: The ball is given without one curvature per model, or the sphere with any.
        DivergedError: An embedding is not finite.
    """
    lengths = [len(part) for part in embeddings]
    if len(set(lengths)) != 1:
        raise DatasetError(
            "Joined models must have embedded the same images, but got "
            f"{', '.join(map(str, lengths)) or 'no'} embeddings; embed one list of images with all."
        )
    expected = len(embeddings) if geometry == "poincare" else 0
    if len(curvatures) != expected:
        raise ConfigError(
            f"`curvatures` must hold {expected} numbers for {len(embeddings)} models with "
            f"geometry '{geometry}', but got {len(curvatures)}."
        )
    if geometry == "poincare":
        parts = [
            tangent_vectors(part, geometry=geometry, curvature=curvature)
            for part, curvature in zip(embeddings, curvatures, strict=True)
        ]
    else:
        parts = [l2_normalise(tangent_vectors(part)) for part in embeddings]
    return torch.cat(parts, dim=1).div_(math.sqrt(len(parts))).float()


def dyml_metrics(
    sets: Mapping[str, DymlSet],
    *,
    geometry: Geometry = "sphere",
    curvature: float = 0.0,
    memory_budget: int = MEMORY_BUDGET,
) -> Metrics:
    """Returns AP, ASI and recall@1 of each test set and, under the plain names, their means.

    DyML tests every level on images of its own, and its test images have no label path: there are
    no metrics over all levels. Every set counts the same, whatever its size.

    Args:
        sets: Name of the level, such as `coarse`, `middle`, `fine`, -> its test set.
        geometry: `sphere` (euclidean distance) or `poincare`.
        curvature: Of the ball, > 0; unused on the sphere.
        memory_budget: Bytes that the search may take at a time.

    Returns:
        `ap`, `asi`, `recall_at_1`, then `NAME/ap` and so on for every set; all in 0..1.

    Raises:
        DatasetError: There is no set, or one cannot be scored (see `retrieval_metrics`).
        DivergedError: An embedding is not finite.
    """
    if not sets:
        raise DatasetError("The mean over test sets needs at least one set, but got none.")
    scores = {
        name: retrieval_metrics(
            test.embeddings,
            test.labels,
            geometry=geometry,
            curvature=curvature,
            queries=test.queries,
            gallery=test.gallery,
            recall_at=(1,),
            whole_list=True,
            memory_budget=memory_budget,
        )
        for name, test in sets.items()
    }
    overall = {
        metric: statistics.fmean(found[metric] for found in scores.values())
        for metric in DYML_METRICS
    }
    return overall | {
        f"{name}/{metric}": found[metric]
        for name, found in scores.items()
        for metric in DYML_METRICS
    }


def _spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)

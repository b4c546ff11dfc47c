"""How well scores tell which labels an image has, where it may have several.

N images, T labels. A label is predicted for an image if its score reaches the threshold; in the
`top_3` metrics it must also be among the image's three highest scores. For every label let Nc be
the number of images for which it is rightly predicted, Np for which it is predicted, and Ng of
those that have it. Names with c are means over labels, those with
o are over all labels at once:

    cp = mean of Nc / Np       op = sum of Nc / sum of Np
    cr = mean of Nc / Ng       or = sum of Nc / sum of Ng
    cf1, of1 = 2 p r / (p + r) of the two above, 0 where both are 0
    map = mean of the labels' average precisions

Average precision ranks all images by a label's score, highest first: it is the mean, over the
images that have the label, of the precision of the list that ends there. Images of equal scores
stand at one rank, the last of theirs, so that it never matters in which order images come (as in
scikit-learn; the published codes sort in any order).

Where the formulas say nothing:
- A label that is never predicted has Np = 1, as in the published codes: its precision is 0, and it
  adds 1 to the sum of Np.
- A label that no image has cannot be found: it has neither average precision nor recall and counts
  in neither mean (MulCon's code calls its average precision 0, ML-GCN's divides by zero). Whoever
  predicts it is wrong: it counts in cp and op.
- A label that all images have has an average precision of 1.

References:
    Chen, Wei, Wang, Guo, Multi-Label Image Recognition with Graph Convolutional Networks, CVPR
    2019, arXiv:1904.03582 (its AveragePrecisionMeter is what others use).
    Contrastively Enforcing Distinctiveness for Multi-Label Classification (MulCon), submitted to
    ICLR 2022, appendix A.2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hsearch.errors import ConfigError, DatasetError, DivergedError
from hsearch.results import TOP, Metrics

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Scores = NDArray[Any] | Tensor

MEMORY_BUDGET = 2**28
_BYTES_TO_RANK = 64  # of one score while average precisions are computed
_BYTES_TO_COUNT = 32


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """What was predicted; all (T,) int64.

    Attributes:
        correct: Nc, images for which the label is rightly predicted.
        predicted: Images for which it is predicted; 0 stays 0 here.
        positive: Ng, images that have it.
    """

    correct: IntArray
    predicted: IntArray
    positive: IntArray

    def precision(self) -> FloatArray:
        """Returns (T,) Nc / Np of every label; 0 for one that is never predicted."""
        return self.correct / self._np

    def recall(self) -> FloatArray:
        """Returns (T,) Nc / Ng of every label; NaN for one that no image has."""
        return np.where(self.positive > 0, self.correct / self.positive.clip(1), np.nan)

    def metrics(self, suffix: str = "") -> Metrics:
        """Returns cp, cr, cf1, op, or and of1 with a suffix to their names."""
        per_label = float(self.precision().mean()), float(np.nanmean(self.recall()))
        total = int(self.correct.sum())
        overall = total / int(self._np.sum()), total / int(self.positive.sum())
        return {
            f"{kind}{name}{suffix}": value
            for kind, pair in (("c", per_label), ("o", overall))
            for name, value in zip(("p", "r", "f1"), (*pair, _f1(*pair)), strict=True)
        }

    @property
    def _np(self) -> IntArray:
        return self.predicted.clip(1)


@dataclass(frozen=True, eq=False)
class LabelScores:
    """What is known of every label.

    Attributes:
        average_precision: (T,) in 0..1; NaN for a label that no image has.
        everything: Of all scores that reach the threshold.
        top: Of those among the k highest of their image.
        k: How many these are.
    """

    average_precision: FloatArray
    everything: LabelCounts
    top: LabelCounts
    k: int

    def metrics(self) -> Metrics:
        """Returns `map`, `cp`, `cr`, `cf1`, `op`, `or`, `of1`, and all but the first as `cp_top_3`.

        All are in 0..1; papers multiply by 100.
        """
        mean = float(np.nanmean(self.average_precision))
        return {"map": mean, **self.everything.metrics(), **self.top.metrics(f"_top_{self.k}")}


def multilabel_metrics(
    scores: Scores, labels: ArrayLike, *, threshold: float = 0.0, k: int = TOP
) -> Metrics:
    """Returns the metrics of `label_scores`, which takes the same arguments."""
    return label_scores(scores, labels, threshold=threshold, k=k).metrics()


def label_scores(
    scores: Scores,
    labels: ArrayLike,
    *,
    threshold: float = 0.0,
    k: int = TOP,
    memory_budget: int = MEMORY_BUDGET,
) -> LabelScores:
    """Returns how well every label is found.

    Args:
        scores: (N, T) finite floats, NumPy or torch; higher where a label is more likely.
        labels: (N, T) multi-hot: 1 or true where the image has the label.
        threshold: From which score on a label is predicted: 0 for logits, 0.5 for probabilities.
        k: How many labels of an image the `top` ones may be, at least 1. Of equal scores the
            label that comes first goes before.
        memory_budget: Bytes that may be taken beside the scores themselves.

    Raises:
        DatasetError: Shapes differ, labels are other than 0 and 1, or no image has any.
        DivergedError: A score is not finite.
        ConfigError: `k` is below 1.
    """
    values = _numbers(scores)
    has = _checked(values, np.asarray(labels))
    if k < 1:
        raise ConfigError(f"`k` must be at least 1, but got {k}.")
    everything, top = _counts(values, has, threshold, k, memory_budget)
    return LabelScores(_average_precisions(values, has, memory_budget), everything, top, k)


def _numbers(scores: Scores) -> NDArray[Any]:
    """Returns (N, T) float32 or float64, without a copy where that is what they are."""
    if isinstance(scores, Tensor):
        scores = scores.detach().cpu()
        scores = (scores if scores.dtype == torch.float64 else scores.float()).numpy()
    values = np.asarray(scores)
    return values.astype(np.result_type(values.dtype, np.float32), copy=False)


def _checked(scores: NDArray[Any], labels: NDArray[Any]) -> BoolArray:
    """Returns the labels as booleans."""
    if scores.ndim != 2 or not scores.size or labels.shape != scores.shape:
        raise DatasetError(
            "Scores and labels must be tables of one row per image and one column per label, but "
            f"got shapes {scores.shape} and {labels.shape}."
        )
    has: BoolArray = labels.astype(bool)
    if labels.dtype != bool and not np.array_equal(has, labels):
        raise DatasetError("Labels must be 0 or 1 for every image, but there are other values.")
    if not has.any():
        raise DatasetError("At least one image must have a label, but none has any.")
    if not np.isfinite(scores).all():
        raise DivergedError(
            "Scores must be finite numbers, but some are not; the training diverged, try a lower "
            "learning rate."
        )
    return has


def _counts(
    scores: NDArray[Any], has: BoolArray, threshold: float, k: int, memory_budget: int
) -> tuple[LabelCounts, LabelCounts]:
    count, num_labels = scores.shape
    correct, predicted = np.zeros((2, 2, num_labels), dtype=np.int64)
    for rows in _parts(count, memory_budget // (_BYTES_TO_COUNT * num_labels)):
        reached = scores[rows] >= threshold
        for i, chosen in enumerate((reached, reached & _highest(scores[rows], k))):
            correct[i] += (chosen & has[rows]).sum(axis=0)
            predicted[i] += chosen.sum(axis=0)
    positive = has.sum(axis=0)
    everything, top = (LabelCounts(correct[i], predicted[i], positive) for i in (0, 1))
    return everything, top


def _highest(scores: NDArray[Any], k: int) -> BoolArray:
    """Returns (n, T): which scores are the k highest of their row; the first ones where equal."""
    if k >= scores.shape[1]:
        return np.ones(scores.shape, dtype=bool)
    last = np.partition(scores, -k, axis=1)[:, -k, None]
    above, equal = scores > last, scores == last
    room = k - above.sum(axis=1, keepdims=True)
    highest: BoolArray = above | (equal & (equal.cumsum(axis=1) <= room))
    return highest


def _average_precisions(scores: NDArray[Any], has: BoolArray, memory_budget: int) -> FloatArray:
    count, num_labels = scores.shape
    found = np.empty(num_labels)
    ranks = np.arange(1, count + 1)
    for columns in _parts(num_labels, memory_budget // (_BYTES_TO_RANK * count)):
        worst = -scores[:, columns].T
        order = worst.argsort(axis=1)
        ordered = np.take_along_axis(worst, order, axis=1)
        hits = np.take_along_axis(has[:, columns].T, order, axis=1)
        ends = np.pad(ordered[:, 1:] != ordered[:, :-1], ((0, 0), (0, 1)), constant_values=True)
        # The rank of an image is that of the last one of the same score.
        last = np.minimum.accumulate(np.where(ends, ranks, count)[:, ::-1], axis=1)[:, ::-1]
        precision = np.take_along_axis(hits.cumsum(axis=1), last - 1, axis=1) / last
        positive = hits.sum(axis=1)
        total = (precision * hits).sum(axis=1)
        found[columns] = np.where(positive > 0, total / positive.clip(1), np.nan)
    return found


def _parts(count: int, size: int) -> Iterator[slice]:
    """Yields slices that cover 0..count - 1, of `size` items each, or of one if that is less."""
    size = max(1, size)
    yield from (slice(start, min(start + size, count)) for start in range(0, count, size))


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

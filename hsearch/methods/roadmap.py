"""ROADMAP: an upper bound of the AP loss, and a calibration.

The bound is called SupAP; the calibration is that of the similarities.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from hsearch.methods._ap import UpperStep
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above, require_at_least
from hsearch.methods.happier import hap_loss


def sup_ap_loss(
    embeddings: Tensor,
    classes: Tensor,
    *,
    step: UpperStep,
    references: Tensor | None = None,
    reference_classes: Tensor | None = None,
) -> Tensor:
    """Returns 1 - mean_q AP_q with AP_q = mean over positives k of rank+(k) / (rank+ + rank-)(k).

    rank+(k) = 1 + sum over the other positives j of H(s_qj - s_qk), which has no gradient;
    rank-(k) = sum over the negatives j of H-(s_qj - s_qk). This is H-AP's surrogate on one level.

    Args:
        embeddings: (B, D), unit rows.
        classes: (B,).
        step: H-.
        references: (N, D), unit rows, the retrieval list of every query; by default the batch, the
            query included.
        reference_classes: (N,).
    """
    return hap_loss(
        embeddings,
        classes[:, None],
        step=step,
        references=references,
        reference_labels=None if reference_classes is None else reference_classes[:, None],
    )


def calibration_loss(
    embeddings: Tensor, classes: Tensor, *, positive_margin: float, negative_margin: float
) -> Tensor:
    """Returns mean [positive_margin - s]+ of positive + mean [s - negative_margin]+ of other pairs.

    Each mean is over the pairs where its term is not 0; an image is no pair with itself.

    Args:
        embeddings: (B, D), unit rows.
        classes: (B,).
        positive_margin: The least similarity within a class, -1 to 1.
        negative_margin: The largest similarity between classes, -1 to 1.
    """
    similarities = embeddings @ embeddings.T
    same = classes[:, None] == classes[None, :]
    pairs = ~torch.eye(len(classes), dtype=torch.bool, device=classes.device)
    return _mean_of_positive((positive_margin - similarities) * (same & pairs)) + _mean_of_positive(
        (similarities - negative_margin) * ~same
    )


def _mean_of_positive(terms: Tensor) -> Tensor:
    return F.relu(terms).sum() / (terms > 0).sum().clamp(min=1)


class Loss(Method):
    """SupAP + `calibration_weight` * calibration, on the classes of the batch.

    Args:
        calibration_weight: Weight of the calibration beside SupAP, >= 0.
        positive_margin: The least similarity within a class, -1 to 1.
        negative_margin: The largest similarity between classes, -1 to 1.
        tau: Temperature of the step's sigmoid, > 0.
        rho: Slope of the step where a negative is far ahead, >= 0.
        delta: From which lead on the step is a line, >= 0.
        start: Height of the step's jump at 0, >= 0.
        offset: Height at which the line begins; unused with `continuous`.
        continuous: Lets the line begin where the sigmoid ends, instead of at `offset`.

    References:
        Ramzi et al., Robust and Decomposable Average Precision for Image Retrieval, NeurIPS 2021,
        arXiv:2110.01445.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        calibration_weight: float = 1.0,
        positive_margin: float = 0.9,
        negative_margin: float = 0.6,
        tau: float = 0.01,
        rho: float = 100.0,
        delta: float = 0.05,
        start: float = 0.5,
        offset: float = 1.44,
        continuous: bool = False,
    ) -> None:
        super().__init__(setting)
        require_at_least(0, "roadmap", calibration_weight=calibration_weight)
        require_above(0, "roadmap", tau=tau)
        require_at_least(0, "roadmap", rho=rho, delta=delta, start=start)
        self.calibration_weight = calibration_weight
        self.positive_margin, self.negative_margin = positive_margin, negative_margin
        self.step_function = UpperStep(tau, rho, delta, start, None if continuous else offset)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; only the last column of `labels`, the class, counts."""
        classes = labels[:, -1]
        calibration = calibration_loss(
            embeddings,
            classes,
            positive_margin=self.positive_margin,
            negative_margin=self.negative_margin,
        )
        ranking = sup_ap_loss(embeddings, classes, step=self.step_function)
        return ranking + self.calibration_weight * calibration

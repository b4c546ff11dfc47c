"""Smooth-AP: average precision with sigmoids as its steps."""

import torch
from torch import Tensor

from hsearch.methods._ap import ap_loss, pair_levels
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above


def smooth_ap_loss(
    embeddings: Tensor,
    classes: Tensor,
    *,
    tau: float,
    references: Tensor | None = None,
    reference_classes: Tensor | None = None,
) -> Tensor:
    """Returns 1 - mean_q AP_q with AP_q = mean over the items k of q's class of rank+(k) / rank(k).

    rank(k) = 1 + sum_{j != k} sigmoid((s_qj - s_qk) / tau), and rank+(k) the same over q's class
    alone. Both carry gradients. Classes may have any numbers of items, in any order.

    Args:
        embeddings: (B, D), unit rows.
        classes: (B,).
        tau: Temperature, > 0.
        references: (N, D), unit rows, the retrieval list of every query; by default the batch, the
            query included.
        reference_classes: (N,).
    """
    if references is None or reference_classes is None:
        references, reference_classes = embeddings, classes

    def ranks(t: Tensor, gap: Tensor, smaller: Tensor) -> tuple[Tensor, Tensor]:
        step = torch.sigmoid(t / tau)
        # Item k beats itself by a half here, and counts as one.
        return 0.5 + step.sum(dim=2), 0.5 + (smaller * step).sum(dim=2)

    levels = pair_levels(classes[:, None], reference_classes[:, None])
    relevances = levels.to(embeddings.dtype)
    return ap_loss(embeddings @ references.T, levels, relevances, ranks)


class Loss(Method):
    """Average precision of every image of a batch against the whole batch, made smooth.

    Args:
        tau: Temperature of the sigmoid that replaces the step, > 0; 0.003 to 0.1 are sensible.

    References:
        Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval, ECCV 2020,
        arXiv:2007.12163.
    """

    def __init__(self, setting: Setting, *, tau: float = 0.01) -> None:
        super().__init__(setting)
        require_above(0, "smooth_ap", tau=tau)
        self.tau = tau

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; only the last column of `labels`, the class, counts."""
        return smooth_ap_loss(embeddings, labels[:, -1], tau=self.tau)

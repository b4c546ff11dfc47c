"""SoftTriple: a margin softmax, several centres per class."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hsearch.geometry import l2_normalise
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above, require_at_least
from hsearch.methods._proxies import ProxyView, unit_proxies

SMALLEST_SQUARE = 1e-5  # added to squared distances: the root has a gradient where centres agree


def soft_triple_loss(
    embeddings: Tensor,
    classes: Tensor,
    centres: Tensor,
    *,
    scale: float,
    gamma: float,
    tau: float,
    margin: float,
) -> Tensor:
    """Returns the margin softmax over classes plus `tau` times the spread of their centres.

    With w of length 1, s_ick = <x_i, w_ck> and s_ic = sum_k softmax_k(s_ick / gamma) s_ick:
    mean_i of the cross-entropy of scale (s_ic - margin [c = y_i]), plus
    tau sum_c sum_(k < j) |w_ck - w_cj| / (C K (K - 1)), which lets centres of a class merge.

    Args:
        embeddings: (B, D), of length 1 already.
        classes: (B,) ids below C.
        centres: (C, K, D), of any norm.
        scale: Inverse temperature of the classes, > 0.
        gamma: Temperature of the centres of one class, > 0.
        tau: Weight of the spread, >= 0.
        margin: >= 0.
    """
    num_classes, per_class, _ = centres.shape
    units = l2_normalise(centres)
    by_centre = (embeddings @ units.flatten(0, 1).T).view(-1, num_classes, per_class)
    by_class = ((by_centre / gamma).softmax(dim=2) * by_centre).sum(dim=2)
    own = F.one_hot(classes, num_classes).to(by_class.dtype)
    loss = F.cross_entropy(scale * (by_class - margin * own), classes)
    if tau > 0 and per_class > 1:
        loss = loss + tau * _spread(units)
    return loss


def _spread(units: Tensor) -> Tensor:
    """Half the mean distance between two centres of a class, over all classes."""
    num_classes, per_class, _ = units.shape
    first, second = torch.triu_indices(per_class, per_class, offset=1, device=units.device)
    cosines = (units @ units.mT)[:, first, second]
    distances = (2.0 + SMALLEST_SQUARE - 2.0 * cosines).sqrt()
    return distances.sum() / (num_classes * per_class * (per_class - 1))


class Loss(Method):
    """Several centres per class.

    Args:
        scale: Inverse temperature of the softmax over classes, > 0.
        gamma: Temperature of the softmax over the centres of one class, > 0.
        tau: Weight of the distances between centres of one class, >= 0.
        margin: Subtracted from the similarity to the image's own class, >= 0.
        centres: Centres of every class, at least 1.

    References:
        Qian et al., SoftTriple Loss: Deep Metric Learning Without Triplet Sampling, ICCV 2019,
        arXiv:1909.05235.
    """

    groups: ClassVar[Mapping[str, float]] = {"proxies": 100.0}

    def __init__(
        self,
        setting: Setting,
        *,
        scale: float = 20.0,
        gamma: float = 0.1,
        tau: float = 0.2,
        margin: float = 0.01,
        centres: int = 10,
    ) -> None:
        super().__init__(setting)
        require_above(0, "soft_triple", scale=scale, gamma=gamma)
        require_at_least(0, "soft_triple", tau=tau, margin=margin)
        require_at_least(1, "soft_triple", centres=centres)
        self.scale, self.gamma, self.tau, self.margin = scale, gamma, tau, margin
        num_classes = setting.hierarchy.num_classes
        bound = 1.0 / math.sqrt(num_classes * centres)
        proxies = torch.empty(num_classes, centres, setting.embedding_dim)
        self.proxies = nn.Parameter(proxies.uniform_(-bound, bound, generator=setting.generator))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; only the last column of `labels`, the class, counts."""
        return soft_triple_loss(
            embeddings,
            labels[:, -1],
            self.proxies,
            scale=self.scale,
            gamma=self.gamma,
            tau=self.tau,
            margin=self.margin,
        )

    def proxy_view(self) -> ProxyView:
        """Returns the centres of all classes."""
        view = unit_proxies([self.proxies.flatten(0, 1)])
        return replace(view, classes=view.classes // self.proxies.shape[1])

"""HAPPIER: a lower bound of hierarchical average precision.

A second loss clusters the classes.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from hsearch.hierarchy import Relevance
from hsearch.methods._ap import LowerStep, Ranks, UpperStep, ap_loss, heaviside, pair_levels
from hsearch.methods._base import Method, Setting, require
from hsearch.methods._knobs import require_above, require_at_least
from hsearch.methods._proxies import ProxyView, unit_proxies
from hsearch.methods.normalized_softmax import normalized_softmax_loss, uniform_proxies


def hap_loss(
    embeddings: Tensor,
    labels: Tensor,
    *,
    step: UpperStep,
    hrank_step: LowerStep | None = None,
    relevance: Relevance = "pop",
    alpha: float = 1.0,
    weights: Sequence[float] | None = None,
    references: Tensor | None = None,
    reference_labels: Tensor | None = None,
) -> Tensor:
    """Returns mean_q (1 - HAP_q), HAP_q = sum_k (Hrank(k) / rank(k)) / sum_k rel_k.

    k runs over the items that share a level with q, and with t = s_qj - s_qk
    rank(k) = 1 + sum_{j != k} (H-(t) if j shares fewer levels with q than k does, else H(t));
    Hrank(k) = rel_k + sum_{j != k} min(rel_j, rel_k) * (H+(t) if j shares more, else H(t)).
    H is the unit step, without gradient. Queries that share no level with any item are skipped.

    Args:
        embeddings: (B, D), unit rows.
        labels: (B, L), coarsest level first.
        step: H-.
        hrank_step: H+; without it H stands in its place.
        relevance: `pop` or `map`, see `level_relevances`.
        alpha: Exponent of `pop`, > 0.
        weights: L weights of `map`, coarsest first; equal if not given.
        references: (N, D), unit rows, the retrieval list of every query; by default the batch, the
            query included.
        reference_labels: (N, L).
    """
    if references is None or reference_labels is None:
        references, reference_labels = embeddings, labels
    levels = pair_levels(labels, reference_labels)
    values = level_relevances(
        levels, labels.shape[1], embeddings.dtype, kind=relevance, alpha=alpha, weights=weights
    )
    return ap_loss(embeddings @ references.T, levels, values, _ranks_by(step, hrank_step))


def _ranks_by(step: UpperStep, hrank_step: LowerStep | None) -> Ranks:
    def ranks(t: Tensor, gap: Tensor, smaller: Tensor) -> tuple[Tensor, Tensor]:
        # Item k itself, with t = 0, is the 1 and the rel_k.
        ahead = heaviside(t)
        higher = ahead if hrank_step is None else torch.where(gap > 0, hrank_step(t), ahead)
        rank = torch.where(gap < 0, step(t), ahead).sum(dim=2)
        return rank, (smaller * higher).sum(dim=2)

    return ranks


def level_relevances(
    levels: Tensor,
    num_levels: int,
    dtype: torch.dtype,
    *,
    kind: Relevance,
    alpha: float = 1.0,
    weights: Sequence[float] | None = None,
) -> Tensor:
    """Returns (Q, N): `Hierarchy.relevance` of items that share `levels` (Q, N) with the queries.

    With l levels shared, `pop` is (l / L)^alpha / |items sharing exactly l|, and `map` is the sum
    over p = 1..l of weights[p - 1] / |items sharing at least p|.
    """
    counts = torch.zeros(len(levels), num_levels + 1, dtype=dtype, device=levels.device)
    counts.scatter_add_(1, levels, counts.new_ones(()).expand_as(levels))
    if kind == "pop":
        share = torch.arange(num_levels + 1, dtype=dtype, device=levels.device) / num_levels
        table = share**alpha / counts.clamp(min=1)
    else:
        at_least = counts.flip(1).cumsum(dim=1).flip(1).clamp(min=1)
        given = [1.0 / num_levels] * num_levels if weights is None else weights
        table = (counts.new_tensor([0.0, *given]) / at_least).cumsum(dim=1)
    return table.gather(1, levels)


class Loss(Method):
    """(1 - `clustering_weight`) * H-AP loss + `clustering_weight` * normalised softmax of classes.

    Args:
        alpha: Exponent of relevance `pop`, > 0; above 1 the finer levels count for more.
        relevance: Of an item that shares l of L levels with the query: `pop` is (l / L)^alpha
            over the number of such items; `map` makes H-AP the mean of the APs of all levels.
        clustering_weight: Weight of the clustering loss, 0 to 1.
        temperature: Of the clustering loss, > 0.
        tau: Temperature of the rank's step, > 0.
        rho: Slope of that step where a less relevant item is far ahead, >= 0.
        delta: From which lead on that step is a line, >= 0.
        start: Height of that step's jump at 0, >= 0.
        offset: Height at which the line begins; unused with `continuous`.
        continuous: Lets the line begin where the sigmoid ends, instead of at `offset`.
        hrank: Whether the numerator of H-AP, which rewards more relevant items ahead, gets
            gradients too, through a step of its own.
        hrank_slope: Slope of its step above 0, >= 0; for hrank.
        hrank_start: Height of its step just above 0, at most 1; for hrank.
        hrank_leak: Slope of its step below 0, >= 0; for hrank.

    References:
        Ramzi et al., Hierarchical Average Precision Training for Pertinent Image Retrieval,
        ECCV 2022, arXiv:2207.04873.
    """

    groups: ClassVar[Mapping[str, float]] = {"proxies": 2e5}

    def __init__(
        self,
        setting: Setting,
        *,
        alpha: float = 1.0,
        relevance: Relevance = "pop",
        clustering_weight: float = 0.1,
        temperature: float = 0.05,
        tau: float = 0.01,
        rho: float = 100.0,
        delta: float = 0.05,
        start: float = 0.5,
        offset: float = 1.44,
        continuous: bool = False,
        hrank: bool = False,
        hrank_slope: float = 25.0,
        hrank_start: float = 0.5,
        hrank_leak: float = 10.0,
    ) -> None:
        super().__init__(setting)
        require_above(0, "happier", alpha=alpha, temperature=temperature, tau=tau)
        require_at_least(0, "happier", rho=rho, delta=delta, start=start)
        require_at_least(0, "happier", hrank_slope=hrank_slope, hrank_leak=hrank_leak)
        require(
            0 <= clustering_weight <= 1,
            f"`clustering_weight` of happier must be from 0 to 1, but got {clustering_weight:g}.",
        )
        require(
            hrank_start <= 1,
            f"`hrank_start` of happier must be at most 1, but got {hrank_start:g}.",
        )
        self.alpha, self.relevance = alpha, relevance
        self.clustering_weight, self.temperature = clustering_weight, temperature
        self.step_function = UpperStep(tau, rho, delta, start, None if continuous else offset)
        lower = LowerStep(hrank_slope, hrank_start, hrank_leak)
        self.hrank_step = lower if hrank else None
        self.proxies = uniform_proxies(setting, setting.hierarchy.num_classes)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; all columns of `labels` count."""
        ranking = hap_loss(
            embeddings,
            labels,
            step=self.step_function,
            hrank_step=self.hrank_step,
            relevance=self.relevance,
            alpha=self.alpha,
        )
        clustering = normalized_softmax_loss(
            embeddings, labels[:, -1], self.proxies, temperature=self.temperature
        )
        return (1.0 - self.clustering_weight) * ranking + self.clustering_weight * clustering

    def proxy_view(self) -> ProxyView:
        """Returns the proxies of the classes."""
        return unit_proxies([self.proxies])

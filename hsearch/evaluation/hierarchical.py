"""Metrics over all levels of the labels at once, from the ranks and levels of the relatives.

The level of a reference is the number of labels that its path shares with the query's, of L. With
rel(l) the relevance of level l, r_k the rank of relative k, l_k its level, c_m(k) the number of
references of level m in the top r_k, n_m their number in the whole list and N = n_1 + ... + n_L:

    h_ap          sum over k of Hrank(k) / r_k, divided by sum over k of rel(l_k), where
                  Hrank(k) = sum over m of min(rel(m), rel(l_k)) c_m(k); relevance `pop`
    h_ap_map      the same with relevance `map`: the mean of the levels' AP
    h_asi         (1 / N) sum over n <= N of |top n and ideal top n| / n, intersected level by level
    h_ndcg        sum over k of (2^l_k - 1) / log2(1 + r_k), divided by its largest value
    h_violations  of all pairs of references of different level, the share in which the one of the
                  lower level comes first

A query without relatives counts in no mean. The i-th reference of level m counts in the ideal top
n from n = n_{m+1} + ... + n_L + i on, and in the top n of the ranking from its rank on, so ASI is
(1 / N) sum over k of H(N) - H(max(r_k, ideal rank of k) - 1) with the harmonic numbers H.

The last follows the hierarchy constraint of HiMulCon, whose supplement (section E) compares random
pairs of images; here the two pairs that are compared share the query, and all are compared.

References:
    Ramzi et al., Hierarchical Average Precision Training for Pertinent Image Retrieval, ECCV 2022,
    arXiv:2207.04873.
    Sun et al., Dynamic Metric Learning, CVPR 2021, arXiv:2103.11781 (ASI).
    Zhang et al., Use All The Labels, CVPR 2022, arXiv:2204.13207 (hierarchy constraint).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hsearch.evaluation.metrics import harmonic_differences
from hsearch.hierarchy import level_relevance


class HierarchicalScores:
    """Scores any block of queries.

    Args:
        counts: (Q, L + 1): how many references of level 0..L each query has, without itself.
        own: (Q,) booleans, whether the query is among the references; relevance `pop` counts it.
        alpha: Exponent of relevance `pop`, > 0.
        device: Where blocks lie.
    """

    def __init__(
        self,
        counts: NDArray[np.int64],
        own: NDArray[np.bool_],
        *,
        alpha: float,
        device: torch.device,
    ) -> None:
        with_own = counts.copy()
        with_own[:, -1] += own
        self._relevances = {
            "h_ap": _put(level_relevance(with_own, kind="pop", alpha=alpha)[:, 1:], device),
            "h_ap_map": _put(level_relevance(counts, kind="map")[:, 1:], device),
        }
        self._counts = _put(counts.astype(np.float64), device)
        self._ideal_gains = _put(_ideal_gains(counts), device)
        self._levels = torch.arange(1, counts.shape[1], device=device)

    def scores(self, queries: Tensor, ranks: Tensor, levels: Tensor) -> dict[str, Tensor]:
        """Returns (q,) float64 of every metric of ALL_LEVEL_METRICS.

        Args:
            queries: (q,) numbers of the queries.
            ranks: (q, P) ascending ranks of all their relatives, P > 0.
            levels: (q, P) levels of those, 1..L.
        """
        ranks = ranks.double()
        at_level = (levels[:, None, :] == self._levels[:, None]).double()  # (q, L, P)
        seen = at_level.cumsum(dim=2)
        # (q, L, L): [l, m] = sum over relatives k of level l of c_m(k), and of c_m(k) / r_k.
        crossed = torch.bmm(at_level, seen.transpose(1, 2))
        weighted = torch.bmm(at_level, (seen / ranks[:, None, :]).transpose(1, 2))
        counts = self._counts[queries]
        scores = {
            name: _h_ap(weighted, relevance[queries], counts[:, 1:])
            for name, relevance in self._relevances.items()
        }
        total = counts[:, 1:].sum(dim=1, keepdim=True)
        near = slice(0, int((ranks <= total).sum(dim=1).max()))
        ideal = seen[:, :, near] + _finer(counts[:, 1:])[:, :, None]
        ideal = ideal.mul_(at_level[:, :, near]).sum(dim=1)
        later = torch.maximum(ranks[:, near], ideal).minimum(total + 1.0)
        scores["h_asi"] = harmonic_differences(later, total).sum(dim=1) / total[:, 0]
        gained = at_level @ (1.0 / torch.log2(1.0 + ranks))[:, :, None]  # (q, L, 1)
        scores["h_ndcg"] = gained[:, :, 0] @ _gains(self._levels) / self._ideal_gains[queries]
        in_order = crossed.triu().sum(dim=(1, 2))
        scores["h_violations"] = (ranks.sum(dim=1) - in_order) / _pairs(counts).clamp_min(1.0)
        return scores


def _h_ap(weighted: Tensor, relevance: Tensor, counts: Tensor) -> Tensor:
    least = torch.minimum(relevance[:, :, None], relevance[:, None, :])
    return (least * weighted).sum(dim=(1, 2)) / (relevance * counts).sum(dim=1)


def _pairs(counts: Tensor) -> Tensor:
    """Returns (q,): the pairs of references of different levels, from counts (q, L + 1)."""
    lower = counts.cumsum(dim=1) - counts
    return (counts * lower).sum(dim=1)


def _finer(counts: Tensor) -> Tensor:
    """Returns (q, L): the references of finer levels, from counts (q, L) of the levels 1..L."""
    return counts.flip(1).cumsum(dim=1).flip(1) - counts


def _gains(levels: Tensor) -> Tensor:
    return torch.pow(2.0, levels.double()) - 1.0


def _ideal_gains(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns (Q,): the DCG of a perfect ranking, finest level first."""
    longest = int(counts[:, 1:].sum(axis=1).max(initial=0))
    discounts = np.append(0.0, np.cumsum(1.0 / np.log2(np.arange(2, longest + 2))))
    ends = counts[:, :0:-1].cumsum(axis=1)  # finest first
    gained = np.diff(discounts[ends], axis=1, prepend=0.0)
    gains = 2.0 ** np.arange(counts.shape[1] - 1, 0, -1) - 1.0
    ideal: NDArray[np.float64] = gained @ gains
    return ideal


def _put(values: NDArray[np.float64], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)

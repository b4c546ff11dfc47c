"""Retrieval metrics of one level of the labels, from the ranks of the relevant references.

Conventions, equal to pytorch-metric-learning's: R is the number of references with the query's
label, without the query itself; queries with R = 0 count in no mean. With r_1 < r_2 < ... the
ranks, from 1, of the relevant references, so that the precision at rank r_i is i / r_i, and with
the harmonic numbers H(n) = 1 + 1/2 + ... + 1/n:

    precision_at_1  1 if r_1 = 1
    recall_at_k     1 if r_1 <= k
    r_precision     (1 / R) number of r_i <= R
    map_at_r        (1 / R) sum over r_i <= R of i / r_i
    ap              (1 / R) sum over all i of i / r_i
    asi             (1 / R) sum over r_i <= R of H(R) - H(r_i - 1)

The last is the average set intersection, (1 / R) sum over n <= R of |relevant in the top n| / n,
in which the i-th relevant reference is counted by every n >= r_i.

References:
    Musgrave, Belongie, Lim, A Metric Learning Reality Check, ECCV 2020, arXiv:2003.08505.
    Sun et al., Dynamic Metric Learning, CVPR 2021, arXiv:2103.11781 (ASI).
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def level_scores(
    ranks: Tensor, relevant: Tensor, recall_at: Sequence[int], *, whole_list: bool
) -> dict[str, Tensor]:
    """Returns the metrics of q queries under one level, each (q,) float64, 0 where R = 0.

    Args:
        ranks: (q, W) float64, ascending: the ranks of the relevant references that were found,
            then infinity. All r_i <= max(R, k of recall_at) must be there.
        relevant: (q,) R of every query.
        recall_at: The k of recall_at_k.
        whole_list: Whether all relevant references are in `ranks`; adds `ap` and `asi`.
    """
    total = relevant.clamp_min(1).double()[:, None]
    first = ranks[:, 0] if ranks.shape[1] else torch.full_like(total[:, 0], torch.inf)
    precision = torch.arange(1, ranks.shape[1] + 1, device=ranks.device) / ranks
    within = (ranks <= total).sum(dim=1)
    near = ranks[:, : int(within.max())]
    scores = {
        "map_at_r": (precision[:, : near.shape[1]] * (near <= total)).sum(dim=1) / total[:, 0],
        "r_precision": within / total[:, 0],
        "precision_at_1": (first == 1).double(),
        **{f"recall_at_{k}": (first <= k).double() for k in recall_at},
    }
    if whole_list:
        scores["ap"] = precision.sum(dim=1) / total[:, 0]
        shares = harmonic_differences(near.minimum(total + 1.0), total)
        scores["asi"] = shares.sum(dim=1) / total[:, 0]
    return {name: torch.where(relevant > 0, values, 0.0) for name, values in scores.items()}


def ranks_of_hits(hits: Tensor, ranks: Tensor | None = None) -> Tensor:
    """Returns (q, W) float64: the ranks of the hits of every row, then infinity.

    Args:
        hits: (q, n) booleans.
        ranks: (q, n) the rank of each entry, ascending; 1..n if not given.
    """
    number = hits.sum(dim=1)
    found = torch.full((len(hits), int(number.max())), torch.inf, device=hits.device).double()
    filled = torch.arange(found.shape[1], device=hits.device) < number[:, None]
    if ranks is None:
        ranks = torch.arange(1, hits.shape[1] + 1, device=hits.device).expand_as(hits)
    found[filled] = ranks[hits].double()
    return found


def harmonic_differences(ranks: Tensor, last: Tensor) -> Tensor:
    """Returns H(last) - H(rank - 1), the sum of 1 / n over n = rank..last; 0 if rank = last + 1."""
    difference: Tensor = torch.special.digamma(last + 1.0) - torch.special.digamma(ranks)
    return difference

"""Smooth average precision, the one idea behind `smooth_ap`, `roadmap` and `happier`.

A query's (hierarchical) AP is a mean over its relevant items k of Hrank(k) / rank(k), and both
ranks sum a step function of t = s_j - s_k over the items j of the retrieval list. The methods
differ in the step functions. Letters in shapes: Q queries, K relevant items of a query, N items
of its list.

References:
    Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval, ECCV 2020,
    arXiv:2007.12163.
    Ramzi et al., Hierarchical Average Precision Training for Pertinent Image Retrieval, ECCV 2022,
    arXiv:2207.04873.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Maps t (q, K, N), the levels of j minus those of k (q, K, N) and min(relevance of j, of k)
# (q, K, N) to rank and Hrank of every k (q, K). Item j = k is among the N, with t = 0.
Ranks = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

BLOCK_ELEMENTS = 2**19  # of one (q, K, N) array: small for the memory, large enough for a GPU


def ap_loss(similarities: Tensor, levels: Tensor, relevances: Tensor, ranks: Ranks) -> Tensor:
    """Returns mean_q (1 - sum_k Hrank(k) / rank(k) / sum_k relevance(k)) over items k of level > 0.

    Queries without any relevance are skipped; without any query the loss is 0. Only relevant items
    are ranked, and blocks of queries one after the other, so that no (Q, N, N) array ever exists.

    Args:
        similarities: (Q, N), of unit vectors.
        levels: (Q, N) integers; 0 says that item n is not relevant to query q.
        relevances: (Q, N), >= 0.
        ranks: The surrogate's two ranks.
    """
    relevant, levels = levels > 0, levels.to(torch.int8)
    most = int(relevant.sum(dim=1).max())
    items = relevant.byte().sort(dim=1, descending=True, stable=True).indices[:, :most]
    best = relevances.amax(dim=1, keepdim=True)
    answered = best[:, 0] > 0
    # A factor of the relevances cancels; without it tiny ones cannot overflow as divisors.
    relevances = relevances / best.clamp(min=torch.finfo(best.dtype).tiny)
    scale = torch.where(answered, relevances.sum(dim=1), 1.0) * answered.sum().clamp(min=1)
    weights = relevant.gather(1, items) / scale[:, None]

    def precision(rows: slice, similarity: Tensor) -> Tensor:
        chosen = items[rows]
        t = similarity[:, None, :] - similarity.gather(1, chosen)[:, :, None]
        gap = levels[rows, None, :] - levels[rows].gather(1, chosen)[:, :, None]
        own = relevances[rows].gather(1, chosen)[:, :, None]
        rank, hrank = ranks(t, gap, torch.minimum(relevances[rows, None, :], own))
        return (weights[rows] * hrank / rank).sum()

    size = max(1, BLOCK_ELEMENTS // max(1, most * similarities.shape[1]))
    total: Tensor = _SumOverBlocks.apply(similarities, precision, size)
    return answered.any().to(total.dtype) - total


def pair_levels(labels: Tensor, others: Tensor) -> Tensor:
    """Returns (Q, N): how many columns of labels (Q, L) and others (N, L) are equal."""
    return (labels[:, None, :] == others[None, :, :]).sum(dim=2)


def heaviside(t: Tensor) -> Tensor:
    """Returns 1 where t >= 0, ties within rounding included, and 0 elsewhere; no gradient."""
    return (t >= -_rounding(t)).to(t.dtype)


@dataclass(frozen=True)
class UpperStep:
    """H-, which lies above the unit step and keeps a slope where j is far ahead of k.

    sigmoid(t / tau) for t <= 0; start + sigmoid(t / tau) for 0 < t <= delta; offset + rho
    (t - delta) above.

    Attributes:
        tau: Temperature of the sigmoid, > 0.
        rho: Slope of the line, >= 0.
        delta: The t at which the line begins, >= 0.
        start: Height of the jump at 0, >= 0.
        offset: Height at which the line begins; None lets it begin where the sigmoid ends.
    """

    tau: float = 0.01
    rho: float = 100.0
    delta: float = 0.05
    start: float = 0.5
    offset: float | None = 1.44

    def __call__(self, t: Tensor) -> Tensor:
        """Returns H-(t), element by element."""
        offset = self.offset
        if offset is None:
            offset = self.start + 1.0 / (1.0 + math.exp(-self.delta / self.tau))
        rounding = _rounding(t)
        near = torch.sigmoid(t / self.tau) + self.start * (t > rounding).to(t.dtype)
        far = self.rho * (t - self.delta) + offset
        return torch.where(t > max(self.delta, rounding), far, near)


@dataclass(frozen=True)
class LowerStep:
    """H+, which lies below the unit step: min(start + slope t, 1) for t > 0, leak t elsewhere.

    Attributes:
        slope: Above 0, >= 0.
        start: Height just above 0, at most 1.
        leak: Slope below 0, >= 0.
    """

    slope: float = 25.0
    start: float = 0.5
    leak: float = 10.0

    def __call__(self, t: Tensor) -> Tensor:
        """Returns H+(t), element by element."""
        above = (self.slope * t + self.start).clamp(max=1.0)
        return torch.where(t > _rounding(t), above, self.leak * t)


def _rounding(t: Tensor) -> float:
    """What equal similarities may differ by: a matrix product rounds equal columns unlike."""
    return max(4.0 * torch.finfo(t.dtype).eps, 1e-13)


class _SumOverBlocks(torch.autograd.Function):
    """Sum of function(rows, x[rows]) over blocks of rows of x; needs memory for one block.

    A block's gradient is taken right after its value, so backward only scales what is stored.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        function: Callable[[slice, Tensor], Tensor],
        size: int,
    ) -> Tensor:
        total = x.new_zeros(())
        gradient = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        for first in range(0, len(x), size):
            rows = slice(first, first + size)
            if gradient is None:
                total += function(rows, x[rows])
                continue
            block = x[rows].detach().requires_grad_()
            with torch.enable_grad():
                value = function(rows, block)
            (gradient[rows],) = torch.autograd.grad(value, block)
            total += value.detach()
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        (gradient,) = ctx.saved_tensors
        return scale * gradient, None, None

"""Normalised softmax: cosines to one learned proxy per label."""

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hsearch.geometry import l2_normalise
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above
from hsearch.methods._levels import Levels, labels_by_level, require_levels, sizes_by_level
from hsearch.methods._proxies import ProxyView, unit_proxies


def normalized_softmax_loss(
    embeddings: Tensor, classes: Tensor, proxies: Tensor, *, temperature: float
) -> Tensor:
    """Returns mean_i -log softmax_c(<x_i, p_c> / temperature)[y_i] with proxies of length 1.

    Args:
        embeddings: (B, D), of length 1 already.
        classes: (B,) ids below C.
        proxies: (C, D), of any norm.
        temperature: > 0.
    """
    return F.cross_entropy(embeddings @ l2_normalise(proxies).T / temperature, classes)


def uniform_proxies(setting: Setting, count: int) -> nn.Parameter:
    """Returns (count, D) numbers drawn between -1 / sqrt(D) and 1 / sqrt(D)."""
    bound = 1.0 / math.sqrt(setting.embedding_dim)
    proxies = torch.empty(count, setting.embedding_dim)
    return nn.Parameter(proxies.uniform_(-bound, bound, generator=setting.generator))


class Loss(Method):
    """One proxy per class, or one per label of every level and the plain sum of the levels.

    The sum is a baseline of Ramzi et al., ECCV 2022, arXiv:2207.04873.

    Args:
        temperature: Divides the cosines, > 0; the smaller, the harder the softmax.
        levels: `fine` knows classes only; `all` adds the same loss for every coarser level.

    References:
        Zhai, Wu, Classification is a Strong Baseline for Deep Metric Learning, BMVC 2019,
        arXiv:1811.12649.
    """

    groups: ClassVar[Mapping[str, float]] = {"proxies": 1.0}

    def __init__(
        self, setting: Setting, *, temperature: float = 0.05, levels: Levels = "fine"
    ) -> None:
        super().__init__(setting)
        require_above(0, "normalized_softmax", temperature=temperature)
        require_levels(setting.hierarchy, "normalized_softmax", levels)
        self.temperature, self.levels = temperature, levels
        sizes = sizes_by_level(setting.hierarchy, levels)
        self.proxies = nn.ParameterList(uniform_proxies(setting, size) for size in sizes)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss, summed over the chosen levels."""
        total = embeddings.new_zeros(())
        for own, proxies in zip(labels_by_level(labels, self.levels), self.proxies, strict=True):
            total = total + normalized_softmax_loss(
                embeddings, own, proxies, temperature=self.temperature
            )
        return total

    def proxy_view(self) -> ProxyView:
        """Returns the proxies of the chosen levels."""
        return unit_proxies(list(self.proxies)[::-1])

"""ProxyNCA++: softmax over distances to proxies on a sphere.

The classic Proxy-NCA is an option.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hsearch.geometry import cosine_similarities
from hsearch.methods._base import Method, Setting, require
from hsearch.methods._knobs import require_above
from hsearch.methods._levels import Levels, labels_by_level, require_levels, sizes_by_level
from hsearch.methods._proxies import ProxyView, unit_proxies
from hsearch.methods.proxy_nca import proxy_nca_loss

Denominator = Literal["all", "negatives"]


def proxy_nca_pp_loss(
    embeddings: Tensor,
    classes: Tensor,
    proxies: Tensor,
    *,
    radius: float,
    denominator: Denominator = "all",
    smoothing: float = 0.0,
) -> Tensor:
    """Returns the mean of -sum_c t_ic log(exp(-d_ic) / sum_k exp(-d_ik)) over the batch.

    d_ic = |x_i - p_c|^2 = 2 radius^2 (1 - cos) with x and p scaled to length `radius`. The target
    t_i is 1 - smoothing on the class and smoothing / (C - 1) on each other one. k runs over all
    proxies, or over those of other classes: the loss can then be negative, and is 0 where there
    is no other class.

    Lengths a of x and b of p give the same as the radius sqrt(a b) if k runs over all proxies: what
    they add to d_ic is the same for all c.

    Args:
        embeddings: (B, D), of any norm.
        classes: (B,) ids below C.
        proxies: (C, D), of any norm.
        radius: > 0.
        denominator: Which proxies the sum over k holds.
        smoothing: From 0 to below 1; only for the denominator `all`.
    """
    if denominator == "all" and smoothing == 0.0:
        return proxy_nca_loss(embeddings, classes, proxies, scale=radius**2)
    exponents = 2.0 * radius**2 * cosine_similarities(embeddings, proxies)  # -d + 2 radius^2
    if len(proxies) == 1:
        return exponents.sum() * 0.0
    if denominator == "negatives":
        own = exponents.gather(1, classes[:, None])
        others = exponents.scatter(1, classes[:, None], -torch.inf)
        return (others.logsumexp(dim=1) - own[:, 0]).mean()
    share = smoothing / (len(proxies) - 1)
    log_likelihoods = exponents.log_softmax(dim=1)
    on_class = F.nll_loss(log_likelihoods, classes)
    return (1.0 - smoothing - share) * on_class - share * log_likelihoods.sum(dim=1).mean()


class Loss(Method):
    """One proxy per class, or one per label of every level and the plain sum of the levels.

    Equal to normalized_softmax with the temperature 1 / (2 radius^2) and to proxy_nca with the
    scale radius^2, but for the initial length of the proxies, their learning rate, and the options.
    The classic form is that of Movshovitz-Attias et al., ICCV 2017, arXiv:1703.07464; the sum over
    levels a baseline of Ramzi et al., ECCV 2022, arXiv:2207.04873.

    Args:
        radius: Length of embeddings and proxies, > 0; the paper's temperature is 1 / radius^2.
        denominator: `all` proxies, as published, or `negatives`: the classic Proxy-NCA, whose
            softmax leaves out the image's own class.
        smoothing: Share of the target that the other classes get, from 0 to below 1; for the
            denominator `all`.
        levels: `fine` knows classes only; `all` adds the same loss for every coarser level.

    References:
        Teh, DeVries, Taylor, ProxyNCA++: Revisiting and Revitalizing Proxy Neighborhood Component
        Analysis, ECCV 2020, arXiv:2004.01113.
    """

    groups: ClassVar[Mapping[str, float]] = {"proxies": 1e5}

    def __init__(
        self,
        setting: Setting,
        *,
        radius: float = 3.0,
        denominator: Denominator = "all",
        smoothing: float = 0.0,
        levels: Levels = "fine",
    ) -> None:
        super().__init__(setting)
        require_above(0, "proxy_nca_pp", radius=radius)
        require_levels(setting.hierarchy, "proxy_nca_pp", levels)
        require(
            0 <= smoothing < 1,
            f"`smoothing` of proxy_nca_pp must be from 0 to below 1, but got {smoothing}.",
        )
        require(
            smoothing == 0 or denominator == "all",
            f"`smoothing` of proxy_nca_pp needs `denominator: all`, but got {denominator}.",
        )
        self.radius, self.smoothing, self.levels = radius, smoothing, levels
        self.denominator: Denominator = denominator
        shapes = [(n, setting.embedding_dim) for n in sizes_by_level(setting.hierarchy, levels)]
        self.proxies = nn.ParameterList(
            torch.randn(shape, generator=setting.generator) / 8.0 for shape in shapes
        )

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss, summed over the chosen levels."""
        total = embeddings.new_zeros(())
        for own, proxies in zip(labels_by_level(labels, self.levels), self.proxies, strict=True):
            total = total + proxy_nca_pp_loss(
                embeddings,
                own,
                proxies,
                radius=self.radius,
                denominator=self.denominator,
                smoothing=self.smoothing,
            )
        return total

    def proxy_view(self) -> ProxyView:
        """Returns the proxies of the chosen levels."""
        return unit_proxies(list(self.proxies)[::-1])

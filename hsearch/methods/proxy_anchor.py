"""Proxy-Anchor: every class proxy pulls its own and pushes all other embeddings of the batch."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hsearch.geometry import l2_normalise
from hsearch.methods._base import Method, Setting, require


def proxy_anchor_loss(
    embeddings: Tensor, classes: Tensor, proxies: Tensor, *, scale: float, margin: float
) -> Tensor:
    """Returns the Proxy-Anchor loss on cosines s_ic of L2-normalised vectors.

    mean over classes c in the batch of log(1 + sum_{i in c} exp(-scale (s_ic - margin)))
    + mean over all classes c of log(1 + sum_{i not in c} exp(scale (s_ic + margin))).

    Args:
        embeddings: (B, D).
        classes: (B,) ids below C.
        proxies: (C, D), of any norm.
        scale: > 0.
        margin: >= 0.
    """
    cosines = l2_normalise(embeddings) @ l2_normalise(proxies).T
    own = F.one_hot(classes, len(proxies)).bool()
    pull = _log_one_plus_sum_exp(-scale * (cosines - margin), own)
    push = _log_one_plus_sum_exp(scale * (cosines + margin), ~own)
    return pull.sum() / own.any(dim=0).sum() + push.mean()


def _log_one_plus_sum_exp(exponents: Tensor, chosen: Tensor) -> Tensor:
    """log(1 + sum of exp over the chosen rows) per column; the 1 is a row of zeros."""
    masked = exponents.masked_fill(~chosen, -torch.inf)
    return torch.logsumexp(F.pad(masked, (0, 0, 1, 0)), dim=0)


class Loss(Method):
    """One proxy per class, with He initialisation over the classes.

    Args:
        scale: Sharpness of the log-sum-exp, > 0.
        margin: Subtracted from positive and added to negative cosines, 0 to about 0.4.

    References:
        Kim et al., Proxy Anchor Loss for Deep Metric Learning, CVPR 2020, arXiv:2003.13911.
    """

    groups: ClassVar[Mapping[str, float]] = {"proxies": 100.0}

    def __init__(self, setting: Setting, *, scale: float = 32.0, margin: float = 0.1) -> None:
        super().__init__(setting)
        require(scale > 0, f"`scale` of proxy_anchor must be positive, but got {scale}.")
        require(margin >= 0, f"`margin` of proxy_anchor must not be negative, but got {margin}.")
        self.scale, self.margin = scale, margin
        proxies = torch.empty(setting.hierarchy.num_classes, setting.embedding_dim)
        nn.init.kaiming_normal_(proxies, mode="fan_out", generator=setting.generator)
        self.proxies = nn.Parameter(proxies)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; only the last column of `labels`, the class, counts."""
        return proxy_anchor_loss(
            embeddings, labels[:, -1], self.proxies, scale=self.scale, margin=self.margin
        )

"""Proxy-Anchor: class proxies pull their own, push all others.

Every proxy sees all embeddings of the batch.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from hsearch.geometry import cosine_similarities
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above, require_at_least
from hsearch.methods._proxies import ProxyView, unit_proxies


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
    cosines = cosine_similarities(embeddings, proxies)
    own = classes[:, None]
    # The pull of a class is found once per image of it, and shared among them: (B, B), not (B, C).
    same = own == classes[None, :]
    pulls = (-scale * cosines.gather(1, own).T).masked_fill(~same, -torch.inf)
    pushes = (scale * cosines).scatter(1, own, -torch.inf)
    pull = log_one_plus_sum_exp(pulls, scale * margin, dim=1)
    push = log_one_plus_sum_exp(pushes, scale * margin, dim=0)
    share = 1.0 / same.sum(dim=1, dtype=cosines.dtype)
    return (share * pull).sum() / share.sum() + push.mean()


def log_one_plus_sum_exp(exponents: Tensor, shift: float, *, dim: int) -> Tensor:
    """Returns log(1 + sum of exp(exponents + shift)) along `dim`, 0 where all exponents are -inf.

    Adding the shift after the sum spares an array of the exponents' size.
    """
    total = torch.logsumexp(exponents, dim=dim) + shift
    return torch.logaddexp(total, torch.zeros_like(total))


class Loss(Method):
    """One proxy per class, with He initialisation over the classes.

    Args:
        scale: Sharpness of the log-sum-exp, > 0.
        margin: Subtracted from positive and added to negative cosines, >= 0; to about 0.4.

    References:
        Kim et al., Proxy Anchor Loss for Deep Metric Learning, CVPR 2020, arXiv:2003.13911.
    """

    groups: ClassVar[Mapping[str, float]] = {"proxies": 100.0}

    def __init__(self, setting: Setting, *, scale: float = 32.0, margin: float = 0.1) -> None:
        super().__init__(setting)
        require_above(0, "proxy_anchor", scale=scale)
        require_at_least(0, "proxy_anchor", margin=margin)
        self.scale, self.margin = scale, margin
        proxies = torch.empty(setting.hierarchy.num_classes, setting.embedding_dim)
        nn.init.kaiming_normal_(proxies, mode="fan_out", generator=setting.generator)
        self.proxies = nn.Parameter(proxies)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; only the last column of `labels`, the class, counts."""
        return proxy_anchor_loss(
            embeddings, labels[:, -1], self.proxies, scale=self.scale, margin=self.margin
        )

    def proxy_view(self) -> ProxyView:
        """Returns the proxies of the classes."""
        return unit_proxies([self.proxies])

"""Proxy-NCA: softmax over the distances to class proxies."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hsearch.geometry import l2_normalise
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above
from hsearch.methods._proxies import ProxyView, unit_proxies


def proxy_nca_loss(embeddings: Tensor, classes: Tensor, proxies: Tensor, *, scale: float) -> Tensor:
    """Returns mean_i -log softmax_c(-scale |x_i - p_c|^2)[y_i] on L2-normalised vectors.

    On the unit sphere |x - p|^2 = 2 - 2 cos(x, p), so this is a cross-entropy on 2 * scale * cos.
    The positive proxy is part of the denominator, as in PyTorch Metric Learning.

    Args:
        embeddings: (B, D).
        classes: (B,) ids below C.
        proxies: (C, D), of any norm.
        scale: Inverse temperature of the squared distance, > 0; 9 is the usual radius of 3.
    """
    cosines = l2_normalise(embeddings) @ l2_normalise(proxies).T
    return F.cross_entropy(2.0 * scale * cosines, classes)


class Loss(Method):
    """One proxy per class, drawn from a standard normal distribution.

    Args:
        scale: Inverse temperature of the squared distance to the proxies, > 0.

    References:
        Movshovitz-Attias et al., No Fuss Distance Metric Learning using Proxies, ICCV 2017,
        arXiv:1703.07464.
    """

    groups: ClassVar[Mapping[str, float]] = {"proxies": 100.0}

    def __init__(self, setting: Setting, *, scale: float = 9.0) -> None:
        super().__init__(setting)
        require_above(0, "proxy_nca", scale=scale)
        self.scale = scale
        shape = (setting.hierarchy.num_classes, setting.embedding_dim)
        self.proxies = nn.Parameter(torch.randn(shape, generator=setting.generator))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; only the last column of `labels`, the class, counts."""
        return proxy_nca_loss(embeddings, labels[:, -1], self.proxies, scale=self.scale)

    def proxy_view(self) -> ProxyView:
        """Returns the proxies of the classes."""
        return unit_proxies([self.proxies])

"""CSL: class proxies push other labels away at every level.

The coarser the level, the farther.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from hsearch.geometry import l2_normalise
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above, require_at_least
from hsearch.methods._proxies import ProxyView, unit_proxies
from hsearch.methods.normalized_softmax import uniform_proxies


def csl_loss(
    embeddings: Tensor,
    labels: Tensor,
    proxies: Tensor,
    paths: Tensor,
    *,
    scale: float,
    margins: Sequence[float],
) -> Tensor:
    """Returns the sum over levels l of mean_i log(1 + e^(scale (m_l - s_iy)) sum_c e^(scale s_ic)).

    s_ic = <x_i, p_c> with proxies of length 1. The sum over c holds the classes whose label of
    level l differs from the image's; y is the image's own class at every level. A level with one
    label only has no such c and contributes 0.

    Args:
        embeddings: (B, D), of length 1 already.
        labels: (B, L) ids, coarsest level first.
        proxies: (C, D), of any norm.
        paths: (C, L), the labels of every class.
        scale: > 0.
        margins: One m_l per level, FINEST level first.
    """
    logits = scale * (embeddings @ l2_normalise(proxies).T)
    own = logits.gather(1, labels[:, -1:])[:, 0]
    total = embeddings.new_zeros(())
    for level, margin in zip(reversed(range(paths.shape[1])), margins, strict=True):
        same = labels[:, level, None] == paths[None, :, level]
        others = logits.masked_fill(same, -torch.inf).logsumexp(dim=1)
        total = total + F.softplus(others - own + scale * margin).mean()
    return total


class Loss(Method):
    """One proxy per class, which carries the class's labels of all levels.

    The margin grows by the same step from each level to the next coarser one. No code of the
    method's own authors is public; this is the loss as HAPPIER's authors compare with it (Ramzi et
    al., ECCV 2022, arXiv:2207.04873).

    Args:
        scale: Inverse temperature of the cosines, > 0.
        fine_margin: Margin at the level of classes, >= 0.
        margin_step: Added to the margin at every coarser level, >= 0.

    References:
        Sun et al., Dynamic Metric Learning: Towards a Scalable Metric Space to Accommodate Multiple
        Semantic Scales, CVPR 2021, arXiv:2103.11781.
    """

    groups: ClassVar[Mapping[str, float]] = {"proxies": 2e5}
    paths: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
        scale: float = 32.0,
        fine_margin: float = 0.25,
        margin_step: float = 0.1,
    ) -> None:
        super().__init__(setting)
        require_above(0, "csl", scale=scale)
        require_at_least(0, "csl", fine_margin=fine_margin, margin_step=margin_step)
        self.scale = scale
        levels = range(setting.hierarchy.num_levels)
        self.margins = tuple(fine_margin + level * margin_step for level in levels)
        self.proxies = uniform_proxies(setting, setting.hierarchy.num_classes)
        paths = torch.tensor(setting.hierarchy.paths)
        self.register_buffer("paths", paths, persistent=False)  # given anew with every setting

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss, summed over all levels."""
        return csl_loss(
            embeddings, labels, self.proxies, self.paths, scale=self.scale, margins=self.margins
        )

    def proxy_view(self) -> ProxyView:
        """Returns the proxies of the classes."""
        return unit_proxies([self.proxies])

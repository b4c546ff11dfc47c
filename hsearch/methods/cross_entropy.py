"""Cross-entropy: a linear classifier on the embeddings.

It is what supervised training usually does.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hsearch.methods._base import Method, Setting, require
from hsearch.methods._knobs import require_above
from hsearch.methods.normalized_softmax import uniform_proxies


def cross_entropy_loss(
    embeddings: Tensor,
    classes: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    scale: float,
    smoothing: float,
) -> Tensor:
    """Returns mean_i -sum_c t_ic log softmax_c(scale <x_i, w_c> + b_c).

    The target t_i is smoothing / C on every class, plus 1 - smoothing on the image's own.

    Args:
        embeddings: (B, D).
        classes: (B,) ids below C.
        weight: (C, D).
        bias: (C,).
        scale: > 0.
        smoothing: From 0 to below 1.
    """
    logits = F.linear(scale * embeddings, weight, bias)
    return F.cross_entropy(logits, classes, label_smoothing=smoothing)


class Loss(Method):
    """A linear classifier, weights and biases free, as the baseline of contrastive papers has it.

    Those papers classify features before their normalisation. Here embeddings are unit vectors, as
    retrieval compares them, so `scale` stands for the length that features would have; a length of
    1 would leave it to slowly growing weights to tell classes apart. Its default is our choice, no
    published value: normalized_softmax, whose weights have length 1, has a temperature of 1 / 20.

    Args:
        scale: Length given to the embeddings before they are classified, > 0; 20 is our choice, not
            published.
        smoothing: Share of the target spread evenly over all classes, from 0 to below 1.

    References:
        Khosla et al., Supervised Contrastive Learning, NeurIPS 2020, arXiv:2004.11362 (baseline).
        Zhang et al., Use All The Labels: A Hierarchical Multi-Label Contrastive Learning Framework,
        CVPR 2022, arXiv:2204.13207 (baseline).
    """

    groups: ClassVar[Mapping[str, float]] = {"classifier": 1.0}

    def __init__(self, setting: Setting, *, scale: float = 20.0, smoothing: float = 0.0) -> None:
        super().__init__(setting)
        require_above(0, "cross_entropy", scale=scale)
        require(
            0 <= smoothing < 1,
            f"`smoothing` of cross_entropy must be from 0 to below 1, but got {smoothing}.",
        )
        self.scale, self.smoothing = scale, smoothing
        self.classifier_weight = uniform_proxies(setting, setting.hierarchy.num_classes)
        self.classifier_bias = nn.Parameter(torch.zeros(setting.hierarchy.num_classes))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; only the last column of `labels`, the class, counts."""
        return cross_entropy_loss(
            embeddings,
            labels[:, -1],
            self.classifier_weight,
            self.classifier_bias,
            scale=self.scale,
            smoothing=self.smoothing,
        )

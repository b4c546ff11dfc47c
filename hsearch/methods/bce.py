"""BCE: one linear classifier for all labels of an image.

The plain baseline of multi-label classification. It is the first row of MulCon's ablation study,
and with `gamma` the second, SupCon on whole images; the other rows are mulcon.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from hsearch.geometry import l2_normalise
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above, require_at_least
from hsearch.methods._layers import Linear, projector
from hsearch.methods.supcon import contrastive_terms

PROJECTION_DIM = 128  # as in SupCon


def bce_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the binary cross-entropy, averaged over all images and labels.

    Args:
        logits: (N, T).
        labels: (N, T) multi-hot, of any dtype.
    """
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))


def shared_label_loss(embeddings: Tensor, labels: Tensor, *, temperature: float) -> Tensor:
    """Returns SupCon's mean over all images where those with a common label are positives.

    Images without a positive count with a loss of 0.

    Args:
        embeddings: (N, D), unit rows: all views of all images.
        labels: (N, T) multi-hot.
        temperature: > 0.
    """
    has = labels.to(embeddings.dtype)
    cosines = embeddings @ embeddings.T
    return contrastive_terms(cosines, has @ has.T > 0, temperature=temperature)[0].mean()


class Loss(Method):
    """Classifies pooled features; if asked, contrasts whole images as well.

    The projector in front of the contrast is always there and only trained with it, so that a state
    fits whatever `gamma` is.

    Args:
        gamma: Weight of SupCon on projected images, >= 0, where images are positives that share at
            least one label; 0 leaves it out. In MulCon's paper it gains nothing (mAP 80.8 on
            MS-COCO with and without).
        temperature: Of SupCon's softmax over cosines, > 0.

    References:
        Dao et al., Contrastively Enforcing Distinctiveness for Multi-Label Classification,
        submitted to ICLR 2022, arXiv:2107.11626 (section 4.3, rows 1 and 2).
        Khosla et al., Supervised Contrastive Learning, NeurIPS 2020, arXiv:2004.11362.
    """

    task = "multilabel"
    features = "pooled"
    wishes: ClassVar[Mapping[str, Any]] = {"batch.sampler": "shuffle"}
    groups: ClassVar[Mapping[str, float]] = {"classifiers": 10.0}

    def __init__(self, setting: Setting, *, gamma: float = 0.0, temperature: float = 0.2) -> None:
        super().__init__(setting)
        require_at_least(0, "bce", gamma=gamma)
        require_above(0, "bce", temperature=temperature)
        self.gamma, self.temperature = gamma, temperature
        (channels,) = setting.feature_shape
        self.classifiers = Linear(channels, setting.hierarchy.num_classes, self.generator)
        self.projector = projector(channels, PROJECTION_DIM, self.generator)
        self.projector.requires_grad_(gamma > 0)

    def embed(self, features: Tensor) -> Tensor:
        """Returns the features (B, C) as they are."""
        return features

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; rows of `labels` are multi-hot."""
        loss = bce_loss(self.scores(embeddings), labels)
        if self.gamma > 0:
            projected = l2_normalise(self.projector(embeddings))
            contrast = shared_label_loss(projected, labels, temperature=self.temperature)
            loss = loss + self.gamma * contrast
        return loss

    def scores(self, embeddings: Tensor) -> Tensor:
        """Returns (B, T) logits."""
        scores: Tensor = self.classifiers(embeddings)
        return scores

    def label_vectors(self) -> Tensor:
        """Returns (T, C), the weights of every label's classifier."""
        return self.classifiers.weight.detach()

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Returns the parameters that are trained; without `gamma` the projector is not."""
        return {"classifiers": [p for p in self.parameters() if p.requires_grad]}

"""SupCon: picks out all others of a class by a softmax.

It is taken over the whole batch.
"""

import torch
from torch import Tensor

from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above

BASE_TEMPERATURE = 0.07


def contrastive_terms(
    cosines: Tensor, positives: Tensor, *, temperature: float
) -> tuple[Tensor, Tensor]:
    """Returns the loss (N,) of every anchor, and (N,) whether it has a positive; 0 where not.

    Anchor i: mean over its positives p of LSE_{a != i}(s_ia / temperature) - s_ip / temperature.

    Args:
        cosines: (N, N) s_ij.
        positives: (N, N) whether j is a positive of i; the diagonal does not count.
        temperature: > 0.
    """
    positives = positives.clone().fill_diagonal_(False)
    counts = positives.sum(dim=1)
    found = counts > 0
    pull = (cosines * positives).sum(dim=1) / counts.clamp_min(1)
    logits = cosines / temperature
    # Not -inf: the only row of a batch of one would have no finite gradient.
    logits.diagonal().fill_(torch.finfo(logits.dtype).min)
    terms = torch.logsumexp(logits, dim=1) - pull / temperature
    return torch.where(found, terms, 0.0), found


def supcon_loss(
    embeddings: Tensor,
    classes: Tensor,
    *,
    temperature: float,
    base_temperature: float = BASE_TEMPERATURE,
) -> Tensor:
    """Returns the mean of all anchors' losses times temperature / base_temperature.

    Anchors without a positive count with a loss of 0.

    Args:
        embeddings: (N, D), unit rows: all views of all images.
        classes: (N,) ids: rows with the same id are positives of each other.
        temperature: > 0.
        base_temperature: > 0; only scales the loss.
    """
    positives = classes[:, None] == classes[None, :]
    cosines = embeddings @ embeddings.T
    terms, _ = contrastive_terms(cosines, positives, temperature=temperature)
    return temperature / base_temperature * terms.mean()


class Loss(Method):
    """Contrasts all views of a class with the rest of the batch; no parameters.

    Args:
        temperature: Of the softmax over cosines, > 0.
        base_temperature: Divides the loss, > 0; the published code never changes it.

    References:
        Khosla et al., Supervised Contrastive Learning, NeurIPS 2020, arXiv:2004.11362.
    """

    views: int = 2

    def __init__(
        self,
        setting: Setting,
        *,
        temperature: float = 0.1,
        base_temperature: float = BASE_TEMPERATURE,
    ) -> None:
        super().__init__(setting)
        require_above(0, "supcon", temperature=temperature, base_temperature=base_temperature)
        self.temperature, self.base_temperature = temperature, base_temperature

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; only the last column of `labels`, the class, counts."""
        return supcon_loss(
            embeddings,
            labels[:, -1],
            temperature=self.temperature,
            base_temperature=self.base_temperature,
        )

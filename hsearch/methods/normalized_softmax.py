"""Normalised softmax."""

from torch import Tensor
from torch.nn import functional as F

from hsearch.geometry import l2_normalise


def normalized_softmax_loss(
    embeddings: Tensor, classes: Tensor, proxies: Tensor, *, temperature: float
) -> Tensor:
    """Returns mean_i CE(x_i . w^_c / temperature)."""
    return F.cross_entropy(embeddings @ l2_normalise(proxies).T / temperature, classes)

"""Multi-Similarity: hard pairs against a soft threshold.

Every anchor has its own hard positives and negatives.
"""

import torch
from torch import Tensor

from hsearch.geometry import cosine_similarities
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above, require_at_least
from hsearch.methods.proxy_anchor import log_one_plus_sum_exp


def multi_similarity_loss(
    embeddings: Tensor,
    classes: Tensor,
    *,
    alpha: float,
    beta: float,
    base: float,
    epsilon: float,
) -> Tensor:
    """Returns the Multi-Similarity loss on the cosines s_ij of hard pairs.

    mean over anchors i of log(1 + sum_p exp(-alpha (s_ip - base))) / alpha
    + log(1 + sum_n exp(beta (s_in - base))) / beta,
    over positives p with s_ip - epsilon < max_n s_in and negatives n with
    s_in + epsilon > min_p s_ip. An anchor without positives or negatives has no hard pairs.

    Args:
        embeddings: (B, D), of any norm.
        classes: (B,) ids.
        alpha: Sharpness of the pull, > 0.
        beta: Sharpness of the push, > 0.
        base: The cosine that parts near from far.
        epsilon: Margin of the mining, >= 0; 2 keeps all pairs.
    """
    cosines = cosine_similarities(embeddings, embeddings)
    same = classes[:, None] == classes[None, :]
    positives = same.clone().fill_diagonal_(False)
    with torch.no_grad():
        farthest = cosines.masked_fill(~positives, torch.inf).amin(dim=1, keepdim=True)
        nearest = cosines.masked_fill(same, -torch.inf).amax(dim=1, keepdim=True)
        positives &= cosines - epsilon < nearest
        negatives = ~same & (cosines + epsilon > farthest)
    pulls = (-alpha * cosines).masked_fill(~positives, -torch.inf)
    pushes = (beta * cosines).masked_fill(~negatives, -torch.inf)
    pull = log_one_plus_sum_exp(pulls, alpha * base, dim=1) / alpha
    push = log_one_plus_sum_exp(pushes, -beta * base, dim=1) / beta
    return (pull + push).mean()


class Loss(Method):
    """Weighs hard pairs by their own and their neighbours' similarities; no parameters.

    Args:
        alpha: Sharpness of the pull on positive pairs, > 0.
        beta: Sharpness of the push on negative pairs, > 0.
        base: Cosine above which positives, below which negatives hardly count, -1 to 1.
        epsilon: Pairs count if they violate the order of similarities up to this margin, >= 0.

    References:
        Wang et al., Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning,
        CVPR 2019, arXiv:1904.06627.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        alpha: float = 2.0,
        beta: float = 50.0,
        base: float = 0.5,
        epsilon: float = 0.1,
    ) -> None:
        super().__init__(setting)
        require_above(0, "multi_similarity", alpha=alpha, beta=beta)
        require_at_least(0, "multi_similarity", epsilon=epsilon)
        self.alpha, self.beta, self.base, self.epsilon = alpha, beta, base, epsilon

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; only the last column of `labels`, the class, counts."""
        return multi_similarity_loss(
            embeddings,
            labels[:, -1],
            alpha=self.alpha,
            beta=self.beta,
            base=self.base,
            epsilon=self.epsilon,
        )

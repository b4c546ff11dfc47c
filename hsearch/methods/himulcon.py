"""HiMulCon, HiConE, HiMulConE: SupCon at every level.

The finest level comes first. `height` numbers levels from 1, the classes, upwards to L, the
coarsest.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from hsearch.geometry import cosine_similarities
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above
from hsearch.methods.supcon import BASE_TEMPERATURE, contrastive_terms

Variant = Literal["himulcon", "hicone", "himulcone"]
Penalty = Literal[
    "exp_inverse_height",
    "pow2_inverse_height",
    "inverse_height",
    "exp_depth",
    "pow2_depth",
    "constant",
    "exp_inverse_depth",
    "pow2_inverse_depth",
    "inverse_depth",
]

# Of height h (1 = classes) and depth d (1 = coarsest level). The supplement's table 2 has the first
# five, which weigh fine levels most; the others are the counter-checks of its table 3.
PENALTIES: Mapping[Penalty, Callable[[int, int], float]] = {
    "exp_inverse_height": lambda h, d: math.exp(1.0 / h),
    "pow2_inverse_height": lambda h, d: 2.0 ** (1.0 / h),
    "inverse_height": lambda h, d: 1.0 / h,
    "exp_depth": lambda h, d: math.exp(d),
    "pow2_depth": lambda h, d: 2.0**d,
    "constant": lambda h, d: 1.0,
    "exp_inverse_depth": lambda h, d: math.exp(1.0 / d),
    "pow2_inverse_depth": lambda h, d: 2.0 ** (1.0 / d),
    "inverse_depth": lambda h, d: 1.0 / d,
}


def himulcon_loss(
    embeddings: Tensor,
    labels: Tensor,
    *,
    views: int,
    variant: Variant,
    penalty: Penalty,
    temperature: float,
    base_temperature: float = BASE_TEMPERATURE,
) -> Tensor:
    """Returns sum_h weight_h * S_h / (L + 1) over the heights h = 1..L.

    S_h is SupCon's mean over the anchors that have positives (none: 0), where images are positives
    if their labels agree down to height h. At height 1 all images take part; above it, one image
    for every distinct label of the height below: for a class its first image in the batch, for a
    coarser label the image of its lowest-numbered child, as in the published code.

    himulcon: weight_h is the penalty. hicone: weights are 1, and S_h is at least every finer S.
    himulcone: both.

    Args:
        embeddings: (V * B, D), all first views first; any norm, only angles count.
        labels: (V * B, L) ids, coarsest first.
        views: V.
        variant: Which of the three losses.
        penalty: A name in `PENALTIES`.
        temperature: > 0.
        base_temperature: > 0; only scales the loss.
    """
    images, levels = len(labels) // views, labels.shape[1]
    cosines = cosine_similarities(embeddings, embeddings).view(views, images, views, images)
    kept = torch.arange(images, device=labels.device)
    total, largest = embeddings.new_zeros(()), embeddings.new_zeros(())
    for height in range(1, levels + 1):
        depth = levels + 1 - height
        ids = torch.unique(labels[kept, :depth], dim=0, return_inverse=True)[1]
        same = ids[:, None] == ids[None, :]
        level = _mean_over_anchors(cosines[:, kept][:, :, :, kept], same, temperature)
        if variant != "himulcon":
            largest = level = torch.maximum(largest, level)
        if variant != "hicone":
            level = level * PENALTIES[penalty](height, depth)
        total = total + level
        first = ~same.tril(-1).any(dim=1)
        kept = kept[first][ids[first].argsort()]
    return temperature / base_temperature * total / (levels + 1)


def first_rows(labels: Tensor) -> Tensor:
    """Returns (N, L): in place of every id of (N, L) the first row that has it in its column.

    Numbered like this, the lowest-numbered child of a label is the first one in the batch, whatever
    the numbers were.
    """
    same = labels[:, None, :] == labels[None, :, :]
    return same.byte().argmax(dim=1)


def _mean_over_anchors(cosines: Tensor, same: Tensor, temperature: float) -> Tensor:
    """SupCon of (V, K, V, K) cosines with (K, K) positives; anchors without any are left out."""
    views, images, _, _ = cosines.shape
    square = cosines.reshape(views * images, views * images)
    terms, found = contrastive_terms(square, same.repeat(views, views), temperature=temperature)
    return terms.sum() / found.sum().clamp_min(1)


class Loss(Method):
    """Contrasts images at every level; above the classes, their first images stand for them.

    Args:
        variant: `himulcon` weighs levels by the penalty, `hicone` keeps a coarser level's loss from
            falling below a finer one's, `himulcone` does both.
        penalty: Weight of a level, from its height (1 for the classes) or its depth (1 for the
            coarsest level); unused by hicone. The `_height` ones and `_depth` ones without
            `inverse` weigh fine levels most, `inverse_depth` ones the coarse levels.
        temperature: Of the softmax over cosines, > 0.

    References:
        Zhang et al., Use All The Labels: A Hierarchical Multi-Label Contrastive Learning Framework,
        CVPR 2022, arXiv:2204.13207.
    """

    views: int = 2
    wishes: ClassVar[Mapping[str, Any]] = {"batch.sampler": "hierarchical_groups"}

    def __init__(
        self,
        setting: Setting,
        *,
        variant: Variant = "himulcone",
        penalty: Penalty = "exp_inverse_height",
        temperature: float = 0.1,
    ) -> None:
        super().__init__(setting)
        require_above(0, "himulcon", temperature=temperature)
        self.variant: Variant = variant
        self.penalty: Penalty = penalty
        self.temperature = temperature

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss; a label is represented by its first image in the batch."""
        return himulcon_loss(
            embeddings,
            first_rows(labels),
            views=self.views,
            variant=self.variant,
            penalty=self.penalty,
            temperature=self.temperature,
        )

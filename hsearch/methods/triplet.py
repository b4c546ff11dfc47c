"""Triplet loss: positives nearer than negatives by a margin."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from hsearch.geometry import cosine_similarities, l2_normalise
from hsearch.methods._base import Method, Setting
from hsearch.methods._knobs import require_above
from hsearch.methods._levels import Levels, labels_by_level, require_levels

Variant = Literal["semihard", "all", "suprank_semihard", "suprank_all"]


def triplet_loss(
    embeddings: Tensor, labellings: Sequence[Tensor], *, variant: Variant, margin: float
) -> Tensor:
    """Returns the sum over the labellings of the mean violation.

    A triplet (anchor, positive, negative) violates by d_ap - d_an + margin > 0; the mean is over
    the violating ones of the considered triplets, 0 if there are none. d is

    semihard: the euclidean distance of unit vectors; all triplets with d_an > d_ap.
    all: the same distance; all triplets.
    suprank_semihard: minus the cosine; per anchor the nearest positive with the nearest negative
        that is farther than it.
    suprank_all: minus the cosine; all triplets.

    No image is its own positive.

    Args:
        embeddings: (B, D), of any norm.
        labellings: (B,) ids each; one, or one per level.
        variant: Distance and choice of triplets.
        margin: > 0.
    """
    if variant in ("semihard", "all"):
        unit = l2_normalise(embeddings)
        distances = torch.cdist(unit, unit, compute_mode="donot_use_mm_for_euclid_dist")
    else:
        distances = -cosine_similarities(embeddings, embeddings)
    total = embeddings.new_zeros(())
    for classes in labellings:
        same = classes[:, None] == classes[None, :]
        positives = same.clone().fill_diagonal_(False)
        if variant == "suprank_semihard":
            level = _one_per_anchor(distances, positives, ~same, margin)
        else:
            level = _all_triplets(distances, positives, ~same, margin, variant == "semihard")
        total = total + level
    return total


def _all_triplets(
    distances: Tensor, positives: Tensor, negatives: Tensor, margin: float, semihard: bool
) -> Tensor:
    """The mean violation over all triplets, from counts instead of a (B, B, B) array.

    The violations' sum is linear in the distances: every d_ap counts once per violating negative,
    every d_an once per violating positive. Among an anchor's sorted negatives, those that violate
    with one positive are neighbours, from `first` to before `last`.
    """
    far = torch.finfo(distances.dtype).max
    ranked = distances.masked_fill(~negatives, far).sort(dim=1).values
    with torch.no_grad():
        last = torch.searchsorted(ranked, distances + margin)
        first = torch.searchsorted(ranked, distances, right=True) if semihard else last * 0
        last = torch.maximum(first, last)
        pulls = (last - first) * positives
        edges = torch.zeros(len(ranked), len(ranked) + 1, dtype=torch.long, device=ranked.device)
        edges.scatter_add_(1, first, positives.long()).scatter_add_(1, last, -positives.long())
        pushes = edges.cumsum(dim=1)[:, :-1]
    total = (pulls * (distances + margin)).sum(dim=1) - (pushes * ranked).sum(dim=1)
    return total.sum() / pulls.sum().clamp_min(1)


def _one_per_anchor(
    distances: Tensor, positives: Tensor, negatives: Tensor, margin: float
) -> Tensor:
    far = torch.finfo(distances.dtype).max
    near = distances.masked_fill(~positives, far).amin(dim=1, keepdim=True)
    farther = negatives & (distances > near)
    nearest = distances.masked_fill(~farther, far).amin(dim=1, keepdim=True)
    found = positives.any(dim=1, keepdim=True) & farther.any(dim=1, keepdim=True)
    violations = torch.where(found, near - nearest + margin, 0.0).relu()
    return violations.sum() / (violations > 0).sum().clamp_min(1)


class Loss(Method):
    """Triplets within the batch; no parameters.

    Args:
        variant: Distance and triplets: `semihard` euclidean, all semi-hard ones; `all` euclidean,
            all; `suprank_semihard` cosine, at most one per anchor; `suprank_all` cosine, all.
        margin: By which a negative must be farther than a positive, > 0; published with 0.1 on
            distances and 0.05 on cosines (`suprank`).
        levels: `fine`, the classes only, or `all`, the sum over all levels of the hierarchy.

    References:
        Schroff et al., FaceNet: A Unified Embedding for Face Recognition and Clustering, CVPR 2015,
        arXiv:1503.03832.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        variant: Variant = "semihard",
        margin: float = 0.1,
        levels: Levels = "fine",
    ) -> None:
        super().__init__(setting)
        require_above(0, "triplet", margin=margin)
        require_levels(setting.hierarchy, "triplet", levels)
        self.variant: Variant = variant
        self.margin = margin
        self.levels: Levels = levels

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Returns the scalar loss."""
        counted = labels_by_level(labels, self.levels)
        return triplet_loss(embeddings, counted, variant=self.variant, margin=self.margin)

"""Proxies as points that can be drawn: where they lie, what they stand for, who is above whom."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hsearch.geometry import l2_normalise, poincare_distances

NO_PARENT = -1
NO_CLASS = -1
MOST_LEAVES = 3000


@dataclass(frozen=True, eq=False)
class ProxyView:
    """A method's proxies, for pictures; nothing is trained through it.

    Attributes:
        points: (P, D) float32 on the CPU, in the method's geometry as embeddings are.
        classes: (P,) the training class that a proxy stands for, NO_CLASS for one of no class.
        parents: (P,) which proxy is above it in the hierarchy, NO_PARENT where none is.
    """

    points: Tensor
    classes: Tensor
    parents: Tensor


@torch.no_grad()
def unit_proxies(levels: Sequence[Tensor], parents: Sequence[Tensor] = ()) -> ProxyView:
    """Returns proxies that are compared by their angles, as unit vectors.

    Args:
        levels: One (K_l, D) per level, finest first; those of the finest stand for the classes.
        parents: One (K_l,) per level but the last: where its parent stands in the next one; empty
            where nobody is above anybody.
    """
    starts = torch.tensor([0, *(len(level) for level in levels)]).cumsum(0).tolist()
    above = torch.full((starts[-1],), NO_PARENT)
    for level, own in enumerate(parents):
        above[starts[level] : starts[level + 1]] = own.cpu() + starts[level + 1]
    classes = torch.full((starts[-1],), NO_CLASS)
    classes[: starts[1]] = torch.arange(starts[1])
    points = l2_normalise(torch.cat([level.detach().float().cpu() for level in levels]))
    return ProxyView(points, classes, above)


@torch.no_grad()
def ball_tree(leaves: Tensor, ancestors: Tensor, curvature: float) -> ProxyView:
    """Returns leaves and the ancestors above them, as HIER chooses a common ancestor of two.

    The ancestor of two points is the one whose larger distance to them is the least. Every point is
    put below that of itself and its nearest neighbour, first the leaves, then the ancestors that
    these have, and so on until one is left. An ancestor is used in one round alone. Ancestors above
    no leaf are left out; without leaves, all are there and above nothing. Of more than MOST_LEAVES
    leaves, so many from all over are taken, as all pairs of points are compared.

    Args:
        leaves: (C, D) points of the ball, one per class; C may be 0.
        ancestors: (A, D) points of the ball.
        curvature: Of the ball, > 0.
    """
    shown = torch.linspace(0, len(leaves) - 1, min(len(leaves), MOST_LEAVES)).round().long()
    leaves, count = leaves[shown], len(shown)
    points = torch.cat([leaves, ancestors]).detach().float().cpu()
    distances = poincare_distances(points, points, curvature)
    parents = torch.full((len(points),), NO_PARENT)
    free = torch.arange(len(points)) >= count
    current = torch.arange(count)
    while len(current) > 1 and free.any():
        among = distances[current][:, current].fill_diagonal_(torch.inf)
        mates = current[among.argmin(dim=1)]
        farther = torch.maximum(distances[current], distances[mates])
        parents[current] = farther.masked_fill(~free, torch.inf).argmin(dim=1)
        chosen = torch.zeros_like(free)
        chosen[parents[current]] = True
        free &= ~chosen
        current = chosen.nonzero().squeeze(1)
    used = ~free if count else free
    numbers = torch.cat([used.cumsum(0) - 1, torch.tensor([NO_PARENT])])  # the last serves -1
    classes = torch.full((len(points),), NO_CLASS)
    classes[:count] = shown
    return ProxyView(points[used], classes[used], numbers[parents][used])

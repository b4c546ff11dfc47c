"""HIER with a loop over anchors and N x M x D arrays of Moebius sums, as in the published code."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dense.classes import anchor_loss
from hsearch.geometry import clip_norm, exp_map_zero

State = Mapping[str, Tensor]
Knobs = Mapping[str, Any]

TRIPLETS_PER_ANCHOR = 50
SMALL = 1e-5
ANCHOR_SCALE, ANCHOR_MARGIN = 32.0, 0.1


def hier(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    """Proxy-Anchor on cosines of the ball's vectors, plus the regulariser on images and LCAs."""
    classes, curvature = labels[:, -1], knobs["curvature"]
    metric = anchor_loss(x, classes, state["proxies"], ANCHOR_SCALE, ANCHOR_MARGIN)
    lcas = exp_map_zero(clip_norm(state["lcas"], knobs["clip_radius"]), curvature)
    same = (classes[:, None] == classes[None, :]).float()
    regulariser = _term(x, lcas, same, knobs) + _term(lcas, lcas, lcas.new_zeros(()), knobs)
    return metric + knobs["hier_weight"] * regulariser


def _term(leaves: Tensor, lcas: Tensor, bonus: Tensor, knobs: Knobs) -> Tensor:
    with torch.no_grad():
        similarity = torch.exp(-_distances(leaves, leaves, knobs["curvature"])) + bonus
    triplets = _triplets(similarity, min(knobs["topk"], len(leaves)))
    distances = _distances(leaves, lcas, knobs["curvature"])
    if not len(triplets):
        return distances.sum() * 0.0
    first, second, third = (distances[column] for column in triplets.T)
    pair = torch.maximum(first, second)
    near = _choice(-pair / knobs["tau"])
    far = _choice(-torch.maximum(pair, third) / knobs["tau"])
    hinges = (
        torch.relu((first * near).sum(1) - (first * far).sum(1) + knobs["margin"])
        + torch.relu((second * near).sum(1) - (second * far).sum(1) + knobs["margin"])
        + torch.relu((third * far).sum(1) - (third * near).sum(1) + knobs["margin"])
    )
    return (hinges * (near.argmax(1) != far.argmax(1))).mean()


def _triplets(similarity: Tensor, k: int) -> Tensor:
    """(T, 3): anchors, a reciprocal neighbour of each, and something that is none."""
    top = similarity.topk(k, dim=1).indices
    member = torch.zeros_like(similarity, dtype=torch.bool)
    for row in range(len(similarity)):
        member[row, top[row]] = True
    found = []
    for anchor in range(len(similarity)):
        reciprocal = member[anchor] & member[:, anchor]
        reciprocal[anchor] = False
        neighbours, others = reciprocal.nonzero()[:, 0], (~reciprocal).nonzero()[:, 0]
        if len(neighbours) <= 1:
            continue
        positives = neighbours[torch.randint(len(neighbours), (TRIPLETS_PER_ANCHOR,))]
        thirds = others[torch.randint(len(others), (TRIPLETS_PER_ANCHOR,))]
        anchors = torch.full_like(positives, anchor)
        found.append(torch.stack([anchors, positives, thirds], dim=1))
    return torch.cat(found) if found else torch.zeros(0, 3, dtype=torch.long)


def _choice(logits: Tensor) -> Tensor:
    return F.gumbel_softmax(logits, tau=1.0, hard=True, dim=1)


def _distances(x: Tensor, y: Tensor, curvature: float) -> Tensor:
    """The Moebius sum of -x and y for every pair, component by component."""
    x, y = -x[:, None, :], y[None, :, :]
    inner = (x * y).sum(dim=2, keepdim=True)
    x_square = (x * x).sum(dim=2, keepdim=True)
    y_square = (y * y).sum(dim=2, keepdim=True)
    upper = (1 + 2 * curvature * inner + curvature * y_square) * x
    upper = upper + (1 - curvature * x_square) * y
    lower = 1 + 2 * curvature * inner + curvature**2 * x_square * y_square
    norms = (upper / (lower + SMALL)).norm(dim=2)
    root = math.sqrt(curvature)
    return 2 / root * torch.atanh((root * norms).clamp(max=1 - SMALL))

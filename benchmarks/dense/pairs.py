"""Losses over pairs and triplets of a batch, with full arrays or loops over anchors."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

State = Mapping[str, Tensor]
Knobs = Mapping[str, Any]

VIEWS = 2
BASE_TEMPERATURE = 0.07  # of the published SupCon, SimCLR and HiMulCon code


def triplet(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    """All semi-hard triplets in B x B x B arrays; the published variant, on the classes."""
    classes, margin = labels[:, -1], knobs["margin"]
    distances = torch.cdist(x, x)
    same = classes[:, None] == classes[None, :]
    positives = same & ~torch.eye(len(x), dtype=torch.bool)
    gaps = distances[:, None, :] - distances[:, :, None]  # anchor, positive, negative
    chosen = positives[:, :, None] & ~same[:, None, :] & (gaps > 0) & (gaps <= margin)
    violations = torch.relu(margin - gaps) * chosen
    return violations.sum() / (violations > 0).sum().clamp(min=1)


def multi_similarity(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    """A loop over anchors."""
    classes = labels[:, -1]
    cosines = x @ x.T
    alpha, beta, base, epsilon = (knobs[k] for k in ("alpha", "beta", "base", "epsilon"))
    terms = []
    for anchor in range(len(x)):
        same = classes == classes[anchor]
        same[anchor] = False
        positives, negatives = cosines[anchor][same], cosines[anchor][classes != classes[anchor]]
        if not len(positives) or not len(negatives):
            continue
        near = negatives[negatives + epsilon > positives.min()]
        far = positives[positives - epsilon < negatives.max()]
        pull = torch.log(1 + torch.exp(-alpha * (far - base)).sum()) / alpha
        push = torch.log(1 + torch.exp(beta * (near - base)).sum()) / beta
        terms.append(pull + push)
    return torch.stack(terms).sum() / len(x)


def supcon(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    return _supcon(x, labels[:, -1], knobs["temperature"], knobs["base_temperature"])


def simclr(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    images = torch.arange(len(x)) % (len(x) // VIEWS)
    return _supcon(x, images, knobs["temperature"], knobs["base_temperature"])


def _supcon(x: Tensor, classes: Tensor, temperature: float, base: float) -> Tensor:
    logits = x @ x.T / temperature
    logits = logits - logits.max(dim=1, keepdim=True).values.detach()
    others = torch.ones_like(logits) - torch.eye(len(x))
    positives = (classes[:, None] == classes[None, :]).float() * others
    log_likelihoods = logits - torch.log((logits.exp() * others).sum(dim=1, keepdim=True))
    terms = (positives * log_likelihoods).sum(dim=1) / positives.sum(dim=1).clamp(min=1)
    return -(temperature / base) * terms.mean()


def himulcon(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    """Loops over levels, and over anchors and labels inside; HiMulConE with exp(1 / level)."""
    images, levels = len(x) // VIEWS, labels.shape[1]
    kept = list(range(images))
    total, largest = x.new_zeros(()), x.new_zeros(())
    for height in range(1, levels + 1):
        depth = levels + 1 - height
        rows = [view * images + image for view in range(VIEWS) for image in kept]
        level = _over_anchors(x[rows], labels[rows, :depth], knobs["temperature"])
        largest = torch.maximum(largest, level)
        total = total + torch.exp(torch.tensor(1.0 / height)) * largest
        seen: set[tuple[int, ...]] = set()
        first = []
        for image in kept:
            prefix = tuple(labels[image, :depth].tolist())
            if prefix not in seen:
                seen.add(prefix)
                first.append(image)
        kept = first
    return total / (levels + 1)


def _over_anchors(x: Tensor, paths: Tensor, temperature: float) -> Tensor:
    terms = []
    for anchor in range(len(x)):
        logits = x @ x[anchor] / temperature
        others = torch.ones(len(x), dtype=torch.bool)
        others[anchor] = False
        positives = (paths == paths[anchor]).all(dim=1) & others
        if positives.any():
            terms.append(torch.logsumexp(logits[others], dim=0) - logits[positives].mean())
    if not terms:
        return x.sum() * 0.0
    return temperature / BASE_TEMPERATURE * torch.stack(terms).mean()

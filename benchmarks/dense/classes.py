"""Proxy and classification losses in textbook form."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

State = Mapping[str, Tensor]
Knobs = Mapping[str, Any]


def cross_entropy(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    logits = knobs["scale"] * x @ state["classifier_weight"].T + state["classifier_bias"]
    return softmax_entropy(logits, labels[:, -1])


def normalized_softmax(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    logits = x @ F.normalize(state["proxies.0"], dim=1).T / knobs["temperature"]
    return softmax_entropy(logits, labels[:, -1])


def proxy_nca(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    distances = torch.cdist(F.normalize(x, dim=1), F.normalize(state["proxies"], dim=1)) ** 2
    return softmax_entropy(-knobs["scale"] * distances, labels[:, -1])


def proxy_nca_pp(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    x = knobs["radius"] * F.normalize(x, dim=1)
    proxies = knobs["radius"] * F.normalize(state["proxies.0"], dim=1)
    return softmax_entropy(-(torch.cdist(x, proxies) ** 2), labels[:, -1])


def proxy_anchor(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    return anchor_loss(x, labels[:, -1], state["proxies"], knobs["scale"], knobs["margin"])


def hpl(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    """The base loss of every level, one level after the other; published base: Proxy-Anchor."""
    own = labels[:, -1]
    total = anchor_loss(x, own, state["proxies"], knobs["fine_scale"], knobs["fine_margin"])
    for name in (key for key in state if key.startswith("coarse_")):
        own = state[name.replace("coarse", "parent")][own]
        level = anchor_loss(x, own, state[name], knobs["coarse_scale"], knobs["coarse_margin"])
        total = total + knobs["coarse_weight"] * level
    return total


def soft_triple(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    """The published code's C K x C K similarities of all centres, of which few are used."""
    num_classes, per_class, dim = state["proxies"].shape
    centres = F.normalize(state["proxies"].reshape(-1, dim), dim=1)
    similarities = (x @ centres.T).reshape(len(x), num_classes, per_class)
    weights = F.softmax(similarities / knobs["gamma"], dim=2)
    by_class = (weights * similarities).sum(dim=2)
    margins = torch.zeros_like(by_class)
    margins[torch.arange(len(x)), labels[:, -1]] = knobs["margin"]
    loss = softmax_entropy(knobs["scale"] * (by_class - margins), labels[:, -1])
    owner = torch.arange(len(centres)) // per_class
    used = (owner[:, None] == owner[None, :]).triu(1)
    distances = torch.sqrt(2.0 + 1e-5 - 2.0 * (centres @ centres.T)[used])
    spread = distances.sum() / (num_classes * per_class * (per_class - 1))
    return loss + knobs["tau"] * spread


def csl(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    """A loop over levels, and one over images."""
    logits = knobs["scale"] * x @ F.normalize(state["proxies"], dim=1).T
    levels = labels.shape[1]
    total = x.new_zeros(())
    for height in range(levels):
        margin = knobs["fine_margin"] + height * knobs["margin_step"]
        column = levels - 1 - height
        for image in range(len(x)):
            others = logits[image][state["paths"][:, column] != labels[image, column]]
            own = logits[image, labels[image, -1]]
            term = torch.logsumexp(others, dim=0) - own + knobs["scale"] * margin
            total = total + F.softplus(term) / len(x)
    return total


def softmax_entropy(logits: Tensor, classes: Tensor) -> Tensor:
    target = F.one_hot(classes, logits.shape[1])
    return (-target * F.log_softmax(logits, dim=1)).sum(dim=1).mean()


def anchor_loss(x: Tensor, classes: Tensor, proxies: Tensor, scale: float, margin: float) -> Tensor:
    cosines = F.normalize(x, dim=1) @ F.normalize(proxies, dim=1).T
    own = F.one_hot(classes, len(proxies))
    near = torch.exp(-scale * (cosines - margin))
    far = torch.exp(scale * (cosines + margin))
    present = (own.sum(dim=0) > 0).sum()
    pull = torch.log(1 + torch.where(own == 1, near, 0.0).sum(dim=0)).sum() / present
    push = torch.log(1 + torch.where(own == 0, far, 0.0).sum(dim=0)).sum() / len(proxies)
    return pull + push

"""Surrogates of average precision with their published B x B x B arrays.

Axes: query q, ranked item k, other item j; t_qkj = s_qj - s_qk says by how much j beats k.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dense.classes import softmax_entropy

State = Mapping[str, Tensor]
Knobs = Mapping[str, Any]


def smooth_ap(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    same = labels[:, None, -1] == labels[None, :, -1]
    beaten = torch.sigmoid(_leads(x) / knobs["tau"]) * _others(len(x))
    rank = 1 + beaten.sum(dim=2)
    rank_of_class = 1 + (beaten * same[:, None, :]).sum(dim=2)
    precision = (rank_of_class / rank * same).sum(dim=1) / same.sum(dim=1)
    return 1 - precision.mean()


def roadmap(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    same = labels[:, None, -1] == labels[None, :, -1]
    leads = _leads(x)
    positive = (leads.detach() >= 0).float() * same[:, None, :] * _others(len(x))
    rank_plus = 1 + positive.sum(dim=2)
    rank_minus = (_upper_step(leads, knobs) * ~same[:, None, :]).sum(dim=2)
    precision = (rank_plus / (rank_plus + rank_minus) * same).sum(dim=1) / same.sum(dim=1)
    similarities = x @ x.T
    pairs = same & ~torch.eye(len(x), dtype=torch.bool)
    pull = _mean_of_positive((knobs["positive_margin"] - similarities)[pairs])
    push = _mean_of_positive((similarities - knobs["negative_margin"])[~same])
    return 1 - precision.mean() + knobs["calibration_weight"] * (pull + push)


def happier(state: State, knobs: Knobs, x: Tensor, labels: Tensor) -> Tensor:
    """Relevance by population, as published, and without the H-rank's step."""
    level = (labels[:, None, :] == labels[None, :, :]).sum(dim=2)
    relevance = torch.zeros(level.shape)
    for shared in range(1, labels.shape[1] + 1):
        population = (level == shared).sum(dim=1, keepdim=True).clamp(min=1)
        value = (shared / labels.shape[1]) ** knobs["alpha"] / population
        relevance = torch.where(level == shared, value, relevance)
    leads, others = _leads(x), _others(len(x))
    step = (leads.detach() >= 0).float()
    worse = level[:, None, :] < level[:, :, None]
    rank = 1 + (torch.where(worse, _upper_step(leads, knobs), step) * others).sum(dim=2)
    smaller = torch.minimum(relevance[:, None, :], relevance[:, :, None])
    hrank = relevance + (smaller * step * others).sum(dim=2)
    hap = (hrank / rank * (level > 0)).sum(dim=1) / relevance.sum(dim=1)
    logits = x @ F.normalize(state["proxies"], dim=1).T / knobs["temperature"]
    weight = knobs["clustering_weight"]
    return (1 - weight) * (1 - hap).mean() + weight * softmax_entropy(logits, labels[:, -1])


def _leads(x: Tensor) -> Tensor:
    similarities = x @ x.T
    return similarities[:, None, :] - similarities[:, :, None]


def _others(size: int) -> Tensor:
    return (1 - torch.eye(size))[None]


def _upper_step(t: Tensor, knobs: Knobs) -> Tensor:
    """H-: a sigmoid, raised above 0 and a line above delta."""
    sigmoid = torch.sigmoid(t / knobs["tau"])
    raised = torch.where(t > 0, knobs["start"] + sigmoid, sigmoid)
    line = knobs["rho"] * (t - knobs["delta"]) + knobs["offset"]
    return torch.where(t > knobs["delta"], line, raised)


def _mean_of_positive(terms: Tensor) -> Tensor:
    positive = terms[terms > 0]
    return positive.mean() if len(positive) else terms.sum() * 0.0

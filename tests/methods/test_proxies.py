"""Proxy and classification losses against loops over the formulas, and their limits."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from hsearch.errors import ConfigError
from hsearch.geometry import l2_normalise
from hsearch.hierarchy import Hierarchy
from hsearch.methods import check_knobs, check_ranges
from hsearch.methods.cross_entropy import cross_entropy_loss
from hsearch.methods.csl import csl_loss
from hsearch.methods.proxy_anchor import proxy_anchor_loss
from hsearch.methods.proxy_nca import proxy_nca_loss
from hsearch.methods.proxy_nca_pp import proxy_nca_pp_loss
from hsearch.methods.soft_triple import soft_triple_loss
from tests.methods import oracles
from tests.methods.toy import HIERARCHY, batch, build


def draw(seed: int, num_classes: int, size: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x, proxies = rng.normal(size=(size, 4)), rng.normal(size=(num_classes, 4))
    return x, rng.integers(num_classes, size=size), proxies


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    num_classes=st.integers(2, 6),
    size=st.integers(1, 9),
    scale=st.floats(0.5, 40),
    margin=st.floats(0, 0.5),
)
def test_proxy_nca_and_proxy_anchor(seed, num_classes, size, scale, margin):
    """Two classes included, where the official label binarisation goes wrong."""
    x, classes, proxies = draw(seed, num_classes, size)
    tensors = torch.tensor(x), torch.tensor(classes), torch.tensor(proxies)
    nca = proxy_nca_loss(*tensors, scale=scale)
    anchor = proxy_anchor_loss(*tensors, scale=scale, margin=margin)
    assert float(nca) == pytest.approx(oracles.proxy_nca(x, classes, proxies, scale), rel=1e-9)
    expected = oracles.proxy_anchor(x, classes, proxies, scale, margin)
    assert float(anchor) == pytest.approx(expected, rel=1e-9)


def test_proxy_anchor_does_not_overflow_in_float32():
    x = torch.eye(2, 4)
    loss = proxy_anchor_loss(x, torch.tensor([1, 0]), x.clone(), scale=500.0, margin=0.1)
    assert loss.isfinite()


def proxy_nca_pp_by_loops(x, classes, proxies, radius, denominator, smoothing):
    x, proxies = radius * oracles.unit(x), radius * oracles.unit(proxies)
    total = 0.0
    for row, label in zip(x, classes, strict=True):
        weights = [math.exp(-((row - p) ** 2).sum()) for p in proxies]
        kept = sum(w for c, w in enumerate(weights) if denominator == "all" or c != label)
        for c, weight in enumerate(weights):
            target = 1 - smoothing if c == label else smoothing / (len(proxies) - 1)
            total -= target * math.log(weight / kept)
    return total / len(x)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    num_classes=st.integers(2, 6),
    size=st.integers(1, 9),
    radius=st.floats(0.5, 4),
    form=st.sampled_from([("all", 0.0), ("all", 0.3), ("all", 0.9), ("negatives", 0.0)]),
)
def test_proxy_nca_pp_with_two_and_more_classes(seed, num_classes, size, radius, form):
    """The official code gives a wrong number for two classes."""
    x, classes, proxies = draw(seed, num_classes, size)
    tensors = torch.tensor(x), torch.tensor(classes), torch.tensor(proxies)
    denominator, smoothing = form
    loss = proxy_nca_pp_loss(*tensors, radius=radius, denominator=denominator, smoothing=smoothing)
    expected = proxy_nca_pp_by_loops(x, classes, proxies, radius, denominator, smoothing)
    assert float(loss) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "knobs", [{}, {"denominator": "negatives"}, {"smoothing": 0.2}, {"levels": "all"}]
)
def test_one_class_gives_a_proxy_loss_of_zero(knobs):
    hierarchy = Hierarchy.from_names([("a", "b")])
    method = build("proxy_nca_pp", hierarchy, **knobs)
    features, labels = batch(method, hierarchy)
    loss = method(method.embed(features.requires_grad_()), labels)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert features.grad is not None
    assert not features.grad.any()


@pytest.mark.parametrize("name", ["normalized_softmax", "proxy_nca_pp", "triplet"])
def test_all_levels_need_more_than_one(name):
    with pytest.raises(ConfigError, match=f"`levels: all` of {name} needs data with more than one"):
        build(name, Hierarchy.from_names([("a",), ("b",)]), levels="all")


@pytest.mark.parametrize("name", ["normalized_softmax", "proxy_nca_pp"])
def test_all_levels_are_the_plain_sum(name):
    method = build(name, levels="all")
    assert [len(proxies) for proxies in method.proxies] == list(HIERARCHY.sizes)
    features, labels = batch(method)
    total = 0.0
    for level, proxies in enumerate(method.proxies):
        single = build(name)
        single.proxies[0].data = proxies.data
        total += float(single(single.embed(features), labels[:, : level + 1]).detach())
    assert float(method(method.embed(features), labels).detach()) == pytest.approx(total, rel=1e-6)


def test_smoothing_without_the_own_class_in_the_softmax_is_refused():
    with pytest.raises(ConfigError, match="needs `denominator: all`"):
        build("proxy_nca_pp", smoothing=0.1, denominator="negatives")


def soft_triple_by_loops(x, classes, centres, scale, gamma, tau, margin):
    """Numpy loops; centres (C, K, D)."""
    num_classes, per_class, _ = centres.shape
    total = 0.0
    for row, label in zip(x, classes, strict=True):
        logits = []
        for c in range(num_classes):
            s = [float(row @ w / np.linalg.norm(w)) for w in centres[c]]
            weights = [math.exp(value / gamma) for value in s]
            own = sum(w * v for w, v in zip(weights, s, strict=True)) / sum(weights)
            logits.append(scale * (own - margin * (c == label)))
        total += math.log(sum(math.exp(v) for v in logits)) - logits[label]
    spread = 0.0
    for group in centres:
        units = oracles.unit(group)
        for k in range(per_class):
            for j in range(k):
                spread += math.sqrt(2 + 1e-5 - 2 * units[k] @ units[j])
    pairs = max(1, num_classes * per_class * (per_class - 1))
    return total / len(x) + tau * spread / pairs


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    num_classes=st.integers(1, 4),
    size=st.integers(1, 6),
    per_class=st.integers(1, 4),
    knobs=st.fixed_dictionaries(
        {
            "scale": st.floats(1, 50),
            "gamma": st.floats(0.05, 50),
            "tau": st.sampled_from([0.0, 0.2, 1.0]),
            "margin": st.floats(0, 0.5),
        }
    ),
)
def test_soft_triple(seed, num_classes, size, per_class, knobs):
    x, classes, _ = draw(seed, num_classes, size)
    x = oracles.unit(x)
    centres = np.random.default_rng(seed).normal(size=(num_classes, per_class, 4))
    tensors = torch.tensor(x), torch.tensor(classes), torch.tensor(centres)
    loss = soft_triple_loss(*tensors, **knobs)
    expected = soft_triple_by_loops(x, classes, centres, **knobs)
    assert float(loss) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_soft_triple_has_gradients_where_centres_agree():
    centres = torch.ones(2, 3, 4, requires_grad=True)
    x = l2_normalise(torch.eye(2, 4))
    soft_triple_loss(
        x, torch.tensor([0, 1]), centres, scale=20.0, gamma=0.1, tau=0.2, margin=0.01
    ).backward()
    assert centres.grad is not None
    assert centres.grad.isfinite().all()


def csl_by_loops(x, labels, proxies, paths, scale, margins):
    s = x @ oracles.unit(proxies).T
    total = 0.0
    for level, margin in enumerate(margins):
        column = -1 - level
        for i in range(len(x)):
            others = [c for c in range(len(paths)) if paths[c, column] != labels[i, column]]
            reached = sum(math.exp(scale * s[i, c]) for c in others)
            own = s[i, labels[i, -1]]
            total += math.log1p(math.exp(scale * (margin - own)) * reached) / len(x)
    return total


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    parents=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5),
    size=st.integers(1, 6),
    scale=st.floats(1, 40),
    margin=st.floats(0, 0.5),
)
def test_csl(seed, parents, size, scale, margin):
    """A single coarse label and a single class included: such levels contribute 0."""
    hierarchy = Hierarchy.from_names([("top", p, f"{i}") for i, p in enumerate(parents)])
    x, classes, proxies = draw(seed, len(parents), size)
    x, labels = oracles.unit(x), hierarchy.paths[classes]
    margins = [margin, margin + 0.1, margin + 0.2]
    leaf = torch.tensor(x, requires_grad=True)
    tensors = torch.tensor(labels), torch.tensor(proxies), torch.tensor(hierarchy.paths)
    loss = csl_loss(leaf, *tensors, scale=scale, margins=margins)
    loss.backward()
    expected = csl_by_loops(x, labels, proxies, hierarchy.paths, scale, margins)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-8, abs=1e-12)
    assert leaf.grad is not None
    assert leaf.grad.isfinite().all()


def test_margins_of_csl_grow_from_fine_to_coarse():
    method = build("csl", fine_margin=0.25, margin_step=0.1)
    assert method.margins == pytest.approx((0.25, 0.35, 0.45))
    assert "paths" not in method.state_dict()


def test_cross_entropy_is_that_of_a_linear_layer_on_scaled_embeddings():
    x, classes, weight = (torch.tensor(array) for array in draw(0, 5, 7))
    bias = torch.arange(5.0, dtype=torch.float64)
    loss = cross_entropy_loss(x, classes, weight, bias, scale=3.0, smoothing=0.2)
    likelihoods = (3.0 * x @ weight.T + bias).log_softmax(dim=1)
    target = 0.8 * F.one_hot(classes, 5) + 0.2 / 5
    torch.testing.assert_close(loss, -(target * likelihoods).sum(dim=1).mean())


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("normalized_softmax", {"temperature": 0.0}),
        ("proxy_nca_pp", {"radius": 0.0}),
        ("proxy_nca_pp", {"smoothing": 1.0}),
        ("soft_triple", {"gamma": 0.0}),
        ("soft_triple", {"tau": -0.1}),
        ("soft_triple", {"centres": 0}),
        ("csl", {"scale": -1.0}),
        ("csl", {"margin_step": -0.1}),
        ("cross_entropy", {"scale": 0.0}),
        ("cross_entropy", {"smoothing": 1.0}),
    ],
)
def test_impossible_knobs_are_refused(name, knobs):
    with pytest.raises(ConfigError, match=r"must (not )?be"):
        build(name, **knobs)


@pytest.mark.parametrize("centres", [10**12, 10**18])
def test_knobs_that_need_more_memory_than_there_is_are_refused(centres):
    with pytest.raises(ConfigError, match=rf"must fit into the memory .* centres={centres};"):
        check_ranges("soft_triple", check_knobs("soft_triple", {"centres": centres}))

"""Triplet, SupCon and SimCLR: recorded numbers, loops, peers; limits of all pair losses."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning import losses
from torch import Tensor

from hsearch.errors import ConfigError
from hsearch.geometry import l2_normalise
from hsearch.methods.supcon import contrastive_terms, supcon_loss
from hsearch.methods.triplet import Variant, triplet_loss
from tests.golden_files import load, names
from tests.methods.oracles import unit
from tests.methods.test_golden import close, rounding
from tests.methods.toy import batch, build


def triplet_case(meta, x, labels):
    knobs = meta["hyperparameters"]
    summed = "level_weights" in knobs
    assert knobs.get("margin_miner", knobs.get("margin_loss")) == knobs.get("margin_loss")
    assert set(knobs.get("level_weights", [])) <= {1.0}
    if "semihard" in knobs:  # the SupRank code; levels are counted from the finest
        column = labels.shape[1] - 1 - knobs["hierarchy_level_fine_to_coarse"]
        variant: Variant = "suprank_semihard" if knobs["semihard"] else "suprank_all"
        return triplet_loss(x, [labels[:, column]], variant=variant, margin=knobs["margin"])
    counted = labels.unbind(dim=1) if summed else [labels[:, -1]]
    return triplet_loss(x, counted, variant="semihard", margin=knobs["margin_loss"])


def contrastive_case(meta, x, labels):
    knobs = meta["hyperparameters"]
    images = len(labels)
    ids = torch.arange(images) if "simclr" in meta["name"] else labels[:, -1]
    return supcon_loss(
        l2_normalise(x),
        ids.repeat(knobs["n_views"]),
        temperature=knobs["temperature"],
        base_temperature=knobs["base_temperature"],
    )


def gradient(x: Tensor) -> Tensor:
    assert x.grad is not None
    return x.grad


def by_view(array):
    """(B, V, D) to (V * B, D), all first views first; (B, D) as it is."""
    return array if array.ndim == 2 else np.concatenate(list(array.transpose(1, 0, 2)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", [*names("triplet_*"), *names("supcon*"), *names("simclr_*")])
def test_golden(name, dtype):
    meta, arrays = load(name)
    x = torch.tensor(by_view(arrays["raw_embeddings"]), dtype=dtype, requires_grad=True)
    case = triplet_case if name.startswith("triplet") else contrastive_case
    loss = case(meta, x, torch.tensor(arrays["labels"]))
    loss.backward()
    close(loss, arrays["loss"], meta, rounding(dtype))
    close(x.grad, by_view(arrays["grad_raw_embeddings"]), meta, rounding(dtype))


def test_pml_agrees_with_its_recorded_multi_positive_loss():
    """Not a loss of ours: another denominator than SupCon's, with the peer itself at hand."""
    meta, arrays = load("ntxent_pml_multipos")
    x = torch.tensor(arrays["raw_embeddings"], requires_grad=True)
    loss = losses.NTXentLoss(**meta["hyperparameters"])(x, torch.tensor(arrays["labels"][:, -1]))
    loss.backward()
    close(loss, arrays["loss"], meta, None)
    close(x.grad, arrays["grad_raw_embeddings"], meta, None)


def triplet_loop(x, classes, variant, margin):
    x = unit(x)
    distance = np.linalg.norm(x[:, None] - x[None], axis=2) if variant == "semihard" else -x @ x.T
    found = []
    for a in range(len(x)):
        positives = [p for p in range(len(x)) if p != a and classes[p] == classes[a]]
        negatives = [n for n in range(len(x)) if classes[n] != classes[a]]
        if variant == "suprank_semihard":
            positives = sorted(positives, key=lambda p: distance[a, p])[:1]
            negatives = [n for p in positives for n in negatives if distance[a, n] > distance[a, p]]
            negatives = sorted(negatives, key=lambda n: distance[a, n])[:1]
        for p in positives:
            for n in negatives:
                gap = distance[a, n] - distance[a, p]
                if gap < margin and (gap > 0 or variant != "semihard"):
                    found.append(margin - gap)
    return sum(found) / max(1, len(found))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 9),
    variant=st.sampled_from(["semihard", "suprank_semihard", "suprank_all"]),
    margin=st.floats(0.01, 1.0),
)
def test_triplet_loop(seed, size, variant, margin):
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(size, 3)), rng.integers(3, size=(size, 2))
    labellings = torch.tensor(labels).unbind(dim=1)
    loss = triplet_loss(torch.tensor(x), labellings, variant=variant, margin=margin)
    expected = sum(triplet_loop(x, labels[:, level], variant, margin) for level in range(2))
    assert float(loss) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["triplet_suprank_semihard", "triplet_suprank_all"])
def test_no_image_is_its_own_positive(name):
    """Nothing can be pulled if every image has its own class; the shipped code has self pairs."""
    meta, arrays = load(name)
    x = torch.tensor(arrays["raw_embeddings"], requires_grad=True)
    alone = [torch.arange(len(x))]
    variant = name.removeprefix("triplet_")
    loss = triplet_loss(x, alone, variant=variant, margin=1.9)
    loss.backward()
    assert loss == 0
    assert not gradient(x).any()
    if meta["hyperparameters"]["semihard"]:
        assert arrays["loss"] > 0
        assert arrays["loss_as_shipped"] == 0


def test_equal_distances_are_not_semihard():
    x = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.6, -0.8]], dtype=torch.float64)
    labels = [torch.tensor([0, 0, 1])]
    # Anchor 0 is as far from 1 as from 2; anchor 1 is 0.9 and 1.6 away from 0 and 2.
    loss = triplet_loss(x, labels, variant="semihard", margin=1.0)
    assert float(loss) == pytest.approx(np.sqrt(0.8) - 1.6 + 1.0)
    assert triplet_loss(x, labels, variant="suprank_semihard", margin=0.01) == 0


def test_triplets_of_coarser_levels_are_added():
    method, every = build("triplet"), build("triplet", levels="all")
    features, labels = batch(method)
    x = method.embed(features)
    parts = [
        triplet_loss(x, [labels[:, level]], variant="semihard", margin=0.1) for level in range(3)
    ]
    assert float(every(x, labels)) == pytest.approx(float(sum(parts)))
    assert float(method(x, labels)) == pytest.approx(float(parts[-1]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 8), temperature=st.floats(0.02, 2))
def test_supcon_loop(seed, size, temperature):
    rng = np.random.default_rng(seed)
    x, classes = rng.normal(size=(size, 3)), rng.integers(3, size=size)
    cosines = unit(x) @ unit(x).T / temperature
    total = 0.0
    for i in range(size):
        others = [a for a in range(size) if a != i]
        positives = [a for a in others if classes[a] == classes[i]]
        for p in positives:
            total -= cosines[i, p] / len(positives)
            total += np.log(sum(np.exp(cosines[i, a]) for a in others)) / len(positives)
    loss = supcon_loss(
        torch.tensor(unit(x)), torch.tensor(classes), temperature=temperature, base_temperature=0.5
    )
    assert float(loss) == pytest.approx(temperature / 0.5 * total / size, rel=1e-9, abs=1e-12)


def test_supcon_counts_anchors_without_positives_as_zero():
    """The older copy of the official code gives NaN, PML leaves them out of the mean."""
    x = l2_normalise(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).double())
    classes = torch.tensor([0, 0, 1, 1, 2])
    loss = supcon_loss(x, classes, temperature=0.1, base_temperature=0.1)
    peer = losses.SupConLoss(temperature=0.1)(x, classes)
    assert float(loss) == pytest.approx(float(peer) * 4 / 5)
    terms, found = contrastive_terms(x @ x.T, classes[:, None] == classes[None], temperature=0.1)
    assert found.tolist() == [True, True, True, True, False]
    assert terms[-1] == 0


def test_simclr_does_not_see_labels():
    method = build("simclr")
    features, labels = batch(method)
    x = method.embed(features)
    assert method(x, labels) == method(x, labels.roll(5, dims=0))


SHARPEST: dict[str, Any] = {
    "supcon": {"temperature": 1e-3},
    "simclr": {"temperature": 1e-3},
    "multi_similarity": {"alpha": 500.0, "beta": 500.0, "base": 0.0},
    "triplet": {"variant": "suprank_all", "margin": 2.0, "levels": "all"},
}


@pytest.mark.parametrize("identical", [False, True])
@pytest.mark.parametrize("name", SHARPEST)
def test_finite_in_float32_at_the_sharpest_knobs_and_for_identical_images(name, identical):
    method = build(name) if identical else build(name, **SHARPEST[name])
    features, labels = batch(method)
    features = (torch.ones_like(features) if identical else features).requires_grad_()
    loss = method(method.embed(features), labels)
    loss.backward()
    assert loss.isfinite()
    assert gradient(features).isfinite().all()


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("supcon", {"temperature": 0.0}),
        ("simclr", {"base_temperature": -1.0}),
        ("multi_similarity", {"beta": 0.0}),
        ("multi_similarity", {"epsilon": -0.1}),
        ("triplet", {"margin": 0.0}),
    ],
)
def test_impossible_knobs_are_refused(name, knobs):
    with pytest.raises(ConfigError, match="must be"):
        build(name, **knobs)

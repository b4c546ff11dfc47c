"""The contract of methods for retrieval, beside test_every_method.py."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.hierarchy import Hierarchy
from tests.methods.toy import (
    HIERARCHY,
    RETRIEVAL,
    batch,
    build,
    check_survival,
    fit,
    labels_of,
    loss_of,
)

# Free features settle at the nearest of their class's centres: with several, apart from each other.
FREE_FEATURES: dict[str, dict[str, Any]] = {"soft_triple": {"centres": 1}}

pytestmark = pytest.mark.parametrize("name", RETRIEVAL)


def test_invariant_to_relabelling(name):
    method = build(name).double()
    features, labels = batch(method)
    # New class i is old class order[i]; coarser levels are renumbered as well.
    order = np.random.default_rng(2).permutation(HIERARCHY.num_classes)
    renamed = HIERARCHY.restrict(order)
    other = build(name, renamed).double()
    state = method.state_dict()
    for level, size in enumerate(HIERARCHY.sizes):
        old_of_new = np.empty(size, dtype=np.int64)
        old_of_new[renamed.paths[:, level]] = HIERARCHY.paths[order, level]
        for key, value in state.items():
            if value.ndim and len(value) == size and key != "_extra_state":
                state[key] = value[torch.from_numpy(old_of_new)]
    other.load_state_dict(state)
    new_of_old = torch.from_numpy(np.argsort(order))
    new_labels = labels_of(renamed, new_of_old[labels[:, -1]])
    torch.testing.assert_close(
        loss_of(method, features.double(), labels),
        loss_of(other, features.double(), new_labels),
        rtol=1e-9,
        atol=1e-12,
    )


def test_fifty_steps_raise_retrieval_and_prefer_the_right_labels(name):
    method = build(name, **FREE_FEATURES.get(name, {}))
    features, labels = batch(method)
    images = torch.arange(len(labels) // method.views).repeat(method.views)
    classes = (labels[:, -1] if method.supervised else images).numpy()

    def map_at_r(x):
        with torch.no_grad():
            embeddings = method.embed(x).numpy()
        return retrieval_metrics(
            embeddings, classes, geometry=method.geometry, curvature=method.curvature
        )["map_at_r"]

    before = map_at_r(features)
    fitted = fit(method, features, labels)
    assert map_at_r(fitted) > before + 0.3
    shuffled = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(3))]
    if method.supervised:
        assert loss_of(method, fitted, labels) < loss_of(method, fitted, shuffled)


@pytest.mark.parametrize(
    "classes",
    [
        pytest.param(list(range(11)), id="one image per class"),
        pytest.param([4] * 8, id="a batch of one class"),
        pytest.param([0, 0, 1, 1, 1], id="one coarse class"),
        pytest.param([5], id="a single image"),
    ],
)
def test_survives_odd_batches(name, classes):
    method = build(name)
    labels = labels_of(HIERARCHY, torch.tensor(classes), method.views)
    check_survival(method, labels)


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param([("a", "x"), ("b", "y")], id="two classes"),
        pytest.param([("x",), ("y",), ("z",)], id="one level"),
        pytest.param([("a", "x"), ("a", "y"), ("a", "z")], id="one coarse label"),
    ],
)
def test_survives_odd_hierarchies(name, paths):
    hierarchy = Hierarchy.from_names(paths)
    method = build(name, hierarchy)
    _, labels = batch(method, hierarchy)
    check_survival(method, labels)


def test_proxies_are_drawn_where_embeddings_are_and_nothing_changes(name):
    method = build(name)
    before = copy.deepcopy(method.state_dict())
    view = method.proxy_view()
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())
    if view is None:
        assert not hasattr(method, "proxies")
        return
    embeddings = method.embed(batch(method)[0])
    assert view.points.shape == (len(view.classes), embeddings.shape[1])
    assert not view.points.requires_grad
    if method.geometry == "sphere":
        assert torch.allclose(view.points.norm(dim=1), torch.ones(len(view.points)))
    else:
        assert (view.points.norm(dim=1) < method.curvature**-0.5).all()
    assert set(view.classes.tolist()) - {-1} == set(range(HIERARCHY.num_classes))
    for start in range(len(view.parents)):
        seen, at = set(), start
        while at != -1:
            assert at not in seen
            seen.add(at)
            at = int(view.parents[at])

"""The contract, for every file in hsearch/methods."""

import copy
import re
from typing import Any

import numpy as np
import pytest
import torch

from hsearch.errors import ConfigError
from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.hierarchy import Hierarchy
from hsearch.methods import available_methods, check_knobs, check_ranges, knobs_of, load_method
from tests.methods.toy import DIM, HIERARCHY, batch, build, fit, labels_of

METHODS = available_methods()
# Free features settle at the nearest of their class's centres: with several, apart from each other.
FREE_FEATURES: dict[str, dict[str, Any]] = {"soft_triple": {"centres": 1}}

# Numbers that are bounded otherwise, or not at all.
OTHER_RANGES = {
    "base",
    "clustering_weight",
    "hrank_start",
    "negative_margin",
    "offset",
    "positive_margin",
    "smoothing",
}

pytestmark = pytest.mark.parametrize("name", METHODS)


def loss_of(method, features, labels):
    """The loss from a copy, so that a method's own random draws start alike every time."""
    return copy.deepcopy(method)(method.embed(features), labels)


def draws_random_numbers(method, features, labels):
    tried = copy.deepcopy(method)
    tried(tried.embed(features), labels)
    return not torch.equal(tried.generator.get_state(), method.generator.get_state())


def test_loss_is_a_finite_float32_scalar(name):
    method = build(name)
    loss = loss_of(method, *batch(method))
    assert loss.shape == ()
    assert loss.dtype == torch.float32
    assert loss.isfinite()


def test_gradients_reach_the_embeddings_and_every_parameter(name):
    method = build(name)
    features, labels = batch(method)
    features.requires_grad_()
    method(method.embed(features), labels).backward()
    assert features.grad is not None
    assert (features.grad.abs().sum(dim=1) > 0).all()
    for key, parameter in method.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.abs().sum() > 0, key


def test_parameter_groups_hold_every_parameter_once(name):
    method = build(name)
    groups = method.parameter_groups()
    grouped = [id(p) for parameters in groups.values() for p in parameters]
    assert sorted(grouped) == sorted(id(p) for p in method.parameters())
    assert set(groups) <= {"head", *method.groups}


def test_invariant_to_the_order_of_the_batch(name):
    method = build(name).double()
    features, labels = batch(method)
    features = features.double()
    if draws_random_numbers(method, features, labels):
        return  # the draws belong to places in the batch
    images = len(features) // method.views
    order = torch.arange(images)
    # By definition the first image of a class stands for it at the coarser levels of himulcon.
    per_class = images // HIERARCHY.num_classes
    free = order[order % per_class != 0] if name == "himulcon" else order.clone()
    order[free] = free[torch.randperm(len(free), generator=torch.Generator().manual_seed(1))]
    views = torch.cat([order + view * images for view in range(method.views)])
    torch.testing.assert_close(
        loss_of(method, features, labels),
        loss_of(method, features[views], labels[views]),
        rtol=1e-10,
        atol=1e-12,
    )


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


def check_survival(method, labels):
    features = torch.randn(len(labels), DIM, generator=torch.Generator().manual_seed(4))
    features.requires_grad_()
    loss = method(method.embed(features), labels)
    loss.backward()
    method.step(1)
    gradients = [p.grad for p in [features, *method.parameters()] if p.grad is not None]
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_state_round_trip(name):
    method = build(name)
    features, labels = batch(method)
    fit(method, features, labels, steps=25)
    other = build(name, seed=7)
    other.load_state_dict(method.state_dict())
    first, second = (fit(copy.deepcopy(m), features, labels, steps=25) for m in (method, other))
    assert torch.equal(first, second)


def test_no_global_random_state(name):
    before = torch.random.get_rng_state()
    method = build(name)
    fit(method, *batch(method), steps=3)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_same_seed_same_method(name):
    first, second, third = build(name), build(name), build(name, seed=1)
    features, labels = batch(first)
    assert loss_of(first, features, labels) == loss_of(second, features, labels)
    if list(first.parameters()):
        assert loss_of(first, features, labels) != loss_of(third, features, labels)


def test_unknown_knob_is_rejected_with_the_nearest_name(name):
    knob = next(iter(knobs_of(load_method(name))))
    with pytest.raises(ConfigError, match=f"Unknown knob '{knob}x' of {name}.*'{knob}'"):
        check_knobs(name, {f"{knob}x": 1.0})


def test_numbers_that_are_none_are_refused(name):
    floats = [k.name for k in knobs_of(load_method(name)).values() if k.type is float]
    for knob in floats:
        for value in (float("nan"), float("inf")):
            with pytest.raises(ConfigError, match="must be finite"):
                check_knobs(name, {knob: value})


def test_every_knob_is_documented_and_has_a_published_value(name):
    for knob in knobs_of(load_method(name)).values():
        assert knob.about, knob.name
        assert knob.check(name, knob.default) == knob.default
    assert "References:" in (load_method(name).__doc__ or "")


FIRST_OUTSIDE = {"> 0": 0, ">= 0": -1, "at least 1": 0}


def test_a_knob_out_of_range_is_named_with_its_value(name):
    """Ranges are those that its line of the docstring tells."""
    for knob in knobs_of(load_method(name)).values():
        told = re.search(r"(?<![\w.])(> 0|>= 0|at least 1)(?!\.?\d)", knob.about)
        assert told or knob.type not in (int, float) or knob.name in OTHER_RANGES, knob
        if told and knob.type in (int, float):
            value = FIRST_OUTSIDE[told[1]]
            rule = {"> 0": "above 0", ">= 0": "at least 0"}.get(told[1], told[1])
            sentence = f"`{knob.name}` of {name} must be {rule}, but got {value}\\.$"
            with pytest.raises(ConfigError, match=sentence):
                check_ranges(name, check_knobs(name, {knob.name: value}), num_levels=3)


def test_published_values_are_in_range_whatever_the_number_of_levels(name):
    for num_levels in (1, 2, 7):
        check_ranges(name, check_knobs(name, {}), num_levels)


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

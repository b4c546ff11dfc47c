"""The contract, for every file in hsearch/methods."""

import copy
import re

import pytest
import torch

from hsearch.errors import ConfigError
from hsearch.methods import available_methods, check_knobs, check_ranges, knobs_of, load_method
from tests.methods.toy import HIERARCHY, batch, build, fit, loss_of

METHODS = available_methods()

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


def test_gradients_reach_the_features_and_every_trained_parameter(name):
    method = build(name)
    features, labels = batch(method)
    features.requires_grad_()
    method(method.embed(features), labels).backward()
    assert features.grad is not None
    assert (features.grad.abs().flatten(1).sum(dim=1) > 0).all()
    trained = {key: p for key, p in method.named_parameters() if p.requires_grad}
    for key, parameter in trained.items():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.abs().sum() > 0, key


def test_parameter_groups_hold_every_trained_parameter_once(name):
    method = build(name)
    groups = method.parameter_groups()
    grouped = [id(p) for parameters in groups.values() for p in parameters]
    assert sorted(grouped) == sorted(id(p) for p in method.parameters() if p.requires_grad)
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

"""Every shipped search space: it loads, holds the published values, and covers every method."""

import optuna
import pytest
import torch

from hsearch.hierarchy import Hierarchy
from hsearch.methods import available_methods, check_knobs
from hsearch.recipes import available_recipes, load_recipe, recipe_knobs
from hsearch.search.domain import Choices, Interval
from hsearch.search.space import _folder, available_spaces, load_space
from hsearch.spec import KnobValue
from hsearch.yaml_file import read_yaml
from tests.methods.toy import HIERARCHY, batch, build, fit


def test_every_method_has_a_space_and_every_space_a_method():
    assert available_spaces() == available_methods()


def test_every_common_knob_applies_somewhere():
    common = read_yaml(_folder() / "_common.yaml").content["knobs"]
    assert isinstance(common, dict)
    used = {knob.name for method in available_spaces() for knob in load_space(method).knobs}
    assert set(common) <= used


@pytest.mark.parametrize("method", available_spaces())
def test_the_published_values_lie_inside_the_ranges(method):
    space = load_space(method)
    for knob in space.knobs:
        if knob.name in space.published:
            assert knob.domain.contains(space.published[knob.name]), knob


@pytest.mark.parametrize("recipe", available_recipes())
def test_the_knobs_of_a_recipe_lie_inside_the_ranges(recipe):
    for method in available_spaces():
        given = recipe_knobs(recipe, method)
        for knob in load_space(method).knobs:
            value = given.get(knob.name.removeprefix("method."))
            assert value is None or knob.domain.contains(value), knob  # type: ignore[arg-type]


@pytest.mark.parametrize("recipe", [name for name in available_recipes() if "/" not in name])
def test_the_proxy_rate_of_a_recipe_for_all_methods_lies_inside_the_range(recipe):
    rates = load_recipe(recipe).optimizer.lr
    for method in available_spaces():
        for knob in load_space(method).knobs:
            group = knob.name.removeprefix("optimizer.lr.")
            assert group not in rates or knob.domain.contains(rates[group])


@pytest.mark.parametrize("method", available_spaces())
def test_whatever_a_trial_draws_the_method_and_the_recipe_accept(method):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = load_space(method)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [space.suggest(study.ask()) for _ in range(5)]
    for values in [*drawn, *(point.values for point in space.start)]:
        own = {n.removeprefix("method."): v for n, v in values.items() if n.startswith("method.")}
        assert own.items() <= check_knobs(method, own).items()
        load_recipe("small", {n: v for n, v in values.items() if not n.startswith("method.")})


@pytest.mark.parametrize("method", available_spaces())
def test_published_values_and_start_points_can_be_told_to_optuna(method):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = load_space(method)
    searched = {n: v for n, v in space.published.items() if n in space.distributions()}
    for values in [searched, *(dict(point.values) for point in space.start)]:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        study.enqueue_trial(values)
        drawn = space.suggest(study.ask())
        assert {name: drawn[name] for name in values if name in drawn} == {
            name: value for name, value in values.items() if name in drawn
        }


def extremes(domain: Interval | Choices) -> tuple[KnobValue, ...]:
    return domain.values if isinstance(domain, Choices) else (domain.low, domain.high)


@pytest.mark.parametrize(
    ("method", "knob"),
    [
        pytest.param(method, knob, id=f"{method}-{knob.name}")
        for method in available_spaces()
        for knob in load_space(method).for_classes(HIERARCHY.num_classes).knobs
        if knob.name.startswith("method.")
    ],
)
def test_every_knob_changes_the_loss_or_what_is_learned(method, knob):
    first, *others = learned_with(method, knob, HIERARCHY)
    assert any(
        not torch.equal(ours, theirs)
        for other in others
        for ours, theirs in zip(first, other, strict=True)
    )


def learned_with(method, knob, hierarchy):
    """What is learned with the extreme values of a knob: features and the loss of them."""
    needed = {name.removeprefix("method."): values[0] for name, values in knob.when.items()}
    name = knob.name.removeprefix("method.")
    for value in extremes(knob.domain):
        built = build(method, hierarchy, **{**needed, name: value})
        features, labels = batch(built, hierarchy)
        features = fit(built, features, labels, steps=6 if name == "update_period" else 2)
        yield features, built(built.embed(features), labels)


FLAT = Hierarchy.from_names([(name,) for name in HIERARCHY.names[-1]])


@pytest.mark.parametrize(
    ("method", "knob"),
    [
        pytest.param(method, knob, id=f"{method}-{knob.name}")
        for method in available_spaces()
        for knob in load_space(method).for_classes(FLAT.num_classes).knobs
        if knob.name.startswith("method.") and knob.name != "method.levels"
    ],
)
def test_with_one_level_the_other_knobs_do_nothing_but_scale_the_loss(method, knob):
    first, *others = learned_with(method, knob, FLAT)
    idle = all(
        torch.allclose(other[0], first[0], rtol=1e-3, atol=1e-3)  # Adam's steps have no scale
        for other in others
    )
    assert idle or knob.min_levels == 1, knob
    assert knob.min_levels > 1 or not all(
        torch.equal(ours, theirs)
        for other in others
        for ours, theirs in zip(first, other, strict=True)
    ), f"{knob.name} does nothing with one level: give it `min_levels: 2`"


@pytest.mark.parametrize("path", sorted(_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_begins_with_what_it_is_for(path):
    text = path.read_text()
    assert text.startswith("# ")
    assert "hsearch tune --method" in text.split("knobs:")[0]

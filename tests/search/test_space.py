"""Search spaces: what a trial draws, and how the data's size and given values change it."""

from dataclasses import replace

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.errors import ConfigError
from hsearch.search.domain import Choices, Interval, KnobRange, StartPoint
from hsearch.search.space import SearchSpace, load_space

SPACE = SearchSpace(
    "hpl",
    (
        KnobRange("method.base", Choices(("proxy_anchor", "proxy_nca"))),
        KnobRange("method.fine_margin", Interval(0.0, 0.4), {"method.base": ("proxy_anchor",)}),
        KnobRange("method.num_coarse", Interval(2, 1000, log=True, high_per_class=0.5)),
        KnobRange("method.update_period", Interval(5, 50, step=5), {"method.mode": ("learned",)}),
        KnobRange("optimizer.lr.proxies", Interval(1e-4, 1.0, log=True)),
    ),
    (StartPoint("few", {"method.num_coarse": 10}), StartPoint("many", {"method.num_coarse": 500})),
    {"method.base": "proxy_anchor", "method.mode": "learned", "method.fine_margin": 0.1},
)


def ask(seed: int = 0) -> optuna.Trial:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed)).ask()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_a_trial_draws_inside_the_ranges_and_only_what_matters(seed):
    values = SPACE.suggest(ask(seed))
    domains = {knob.name: knob.domain for knob in SPACE.knobs}
    assert all(domains[name].contains(value) for name, value in values.items())
    assert ("method.fine_margin" in values) == (values["method.base"] == "proxy_anchor")
    assert {"method.num_coarse", "method.update_period"} <= set(values)
    assert type(values["method.num_coarse"]) is int
    assert type(values["optimizer.lr.proxies"]) is float


@pytest.mark.parametrize("name", [knob.name for knob in SPACE.knobs])
def test_drawing_and_distribution_agree(name):
    trial = ask(0)
    knob = next(knob for knob in SPACE.knobs if knob.name == name)
    knob.domain.suggest(trial, name)
    assert trial.distributions[name] == SPACE.distributions()[name]


def test_given_values_are_not_drawn_and_decide_conditions():
    trial = ask()
    values = SPACE.suggest(trial, {"method.base": "proxy_nca", "method.mode": "given"})
    assert set(values) == {"method.num_coarse", "optimizer.lr.proxies"}
    assert set(trial.params) == set(values)


def test_a_knob_below_an_inactive_knob_is_inactive():
    deeper = KnobRange("method.deeper", Interval(0, 9), {"method.fine_margin": (0.1,)})
    space = replace(SPACE, knobs=(*SPACE.knobs, deeper))
    values = space.suggest(ask(), {"method.base": "proxy_nca"})
    assert not {"method.fine_margin", "method.deeper"} & set(values)


@given(st.integers(1, 5000))
def test_few_classes_lower_the_range_and_leave_start_points_to_be_moved_inside(num_classes):
    space = SPACE.for_classes(num_classes)
    interval = next(knob.domain for knob in space.knobs if knob.name == "method.num_coarse")
    assert isinstance(interval, Interval)
    assert interval.high == max(2, min(1000, num_classes // 2))
    assert space.start == SPACE.start
    assert [knob.name for knob in space.knobs] == [knob.name for knob in SPACE.knobs]


def test_steps_count_from_the_low_end():
    interval = Interval(0.1, 0.7, step=0.2)
    assert [value for value in (0.1, 0.2, 0.3, 0.5, 0.7, 0.9) if interval.contains(value)] == [
        0.1,
        0.3,
        0.5,
        0.7,
    ]
    assert Interval(2, 20, step=6, high_per_class=0.5).for_classes(30).high == 14


def test_a_method_without_a_space_says_which_file_to_write(monkeypatch):
    monkeypatch.setattr("hsearch.search.space.available_spaces", lambda: ["proxy_nca"])
    with pytest.raises(ConfigError, match=r"write search_spaces/hpl.yaml, or give") as caught:
        load_space("hpl")
    assert "Did you mean" not in str(caught.value), "the name is right"


def test_an_unknown_method_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'proxy_nca'"):
        load_space("proxy_nce")


def test_a_users_file_is_the_whole_space(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("knobs:\n  method.margin: {low: 0, high: 0.2}\n")
    space = load_space("proxy_anchor", path)
    assert space.knobs == (KnobRange("method.margin", Interval(0.0, 0.2), {}),)
    assert type(space.knobs[0].domain.low) is float  # type: ignore[union-attr]
    assert space.start == ()

"""Settings of the stages that a method asks for can be searched, where the training has them."""

import pytest
from optuna.trial import create_trial

from hsearch.errors import ConfigError
from hsearch.methods import available_methods
from hsearch.search.plan import plan_study
from hsearch.search.proposal import Proposer, first_proposals, value_in
from hsearch.search.settings import find_setting, searchable_settings
from hsearch.search.space import load_space
from hsearch.spec_stage import UNCHANGED
from hsearch.yaml_file import Value

SHARE, RATE = "stages.classify.share", "stages.classify.optimizer.lr.backbone"
SPACE = """
knobs:
  method.gamma: {low: 0.01, high: 1.0, log: true}
  stages.classify.share: {low: 0.2, high: 0.9}
  stages.classify.optimizer.name: {choices: [adamw, sgd]}
  stages.classify.optimizer.lr.backbone:
    {low: 1.0e-4, high: 0.1, log: true, when: {stages.classify.optimizer.name: sgd}}
  stages.classify.optimizer.momentum:
    {low: 0.5, high: 0.9, when: {stages.classify.optimizer.name: sgd}}
start:
  - source: a long one
    values: {stages.classify.share: 0.75}
  - source: as published
    values: {stages.classify.optimizer.name: sgd, stages.classify.optimizer.lr.backbone: 0.002}
"""


@pytest.fixture
def plan(label_store, tmp_path):
    file = tmp_path / "space.yaml"

    def make(settings=None, text=SPACE):
        file.write_text(text)
        return plan_study(
            method="mulcon", data=str(label_store.path), settings=settings or {}, space_file=file
        )

    return make


def test_what_can_be_searched_of_a_stage():
    settings = searchable_settings("mulcon")
    assert {SHARE, RATE, "stages.classify.method.gamma"} <= settings.keys()
    without = [f"stages.classify.{name}" for name in (*UNCHANGED, "method.heads")]
    assert not settings.keys() & set(without)
    assert not any(name.startswith("stages.classify.model") for name in settings)
    assert (settings[SHARE].type, settings[SHARE].published) == (float, None)
    with pytest.raises(ConfigError, match=f"'{SHARE}' cannot be 1: "):
        settings[SHARE].check(1)
    staged = [
        method
        for method in available_methods()
        if any(name.startswith("stages.") for name in searchable_settings(method))
    ]
    assert staged == ["mulcon"]


def test_an_unknown_stage_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match="unknown knob 'stages.clasify.share'; .*mean '" + SHARE):
        find_setting(searchable_settings("mulcon"), "stages.clasify.share")
    with pytest.raises(ConfigError, match=f"unknown knob '{SHARE}'"):
        find_setting(searchable_settings("hpl"), SHARE)


def test_trial_0_has_the_jobs_own_stage_and_start_points_follow(plan):
    made = plan()
    job = made.spec.job
    first, long, published = first_proposals(job, made.space, {})
    assert first.source == "published"
    assert (first.knobs[SHARE], first.knobs["stages.classify.optimizer.name"]) == (0.5, "adamw")
    assert RATE not in first.knobs
    assert first.job.stages() == job.stages()
    assert len(long.job.stages()[0].epochs) == 12 == 0.75 * job.training.schedule.epochs
    assert long.source == "a long one"
    stage, last = published.job.stages()
    assert (stage.job.training.optimizer.name, last.job.training.optimizer.name) == ("sgd", "adamw")
    assert stage.job.training.optimizer.lr["backbone"] == 0.002
    assert last.job.training.optimizer == job.training.optimizer


def test_trial_0_has_the_value_that_is_set_although_it_is_not_searched(plan):
    made = plan({SHARE: 0.25, RATE: 0.03, "stages.classify.optimizer.name": "sgd"})
    assert list(made.spec.space) == ["method.gamma", "stages.classify.optimizer.momentum"]
    first = first_proposals(made.spec.job, made.space, {})[0]
    stage = first.job.stages()[0]
    assert (len(stage.epochs), stage.job.training.optimizer.lr["backbone"]) == (4, 0.03)
    assert first.knobs["stages.classify.optimizer.momentum"] == 0.9


def test_what_a_job_uses_in_a_stage(plan):
    job = plan().spec.job
    assert value_in(job, "stages.classify.method.gamma") == 0.0
    assert value_in(job, "stages.classify.batch.views") == 1
    assert value_in(job, RATE) == job.training.optimizer.lr["backbone"]
    assert value_in(job, "stages.other.share") is None


def test_without_the_stage_its_knobs_and_start_points_are_dropped(plan):
    made = plan({"stages": None})
    assert list(made.spec.space) == ["method.gamma"]
    assert made.space.start == ()
    alone = f"knobs:\n  {SHARE}: {{low: 0.2, high: 0.9}}\n"
    with pytest.raises(ConfigError, match="A search needs a knob to search"):
        plan({"stages": None}, alone)


def test_shares_that_leave_no_epoch_for_the_rest_are_drawn_again(plan):
    made = plan({"schedule.epochs": 3}, f"knobs:\n  {SHARE}: {{low: 0.2, high: 0.9}}\n")
    proposer, shares = Proposer(made.spec, made.space), []
    for number in range(12):
        proposal = proposer.propose()
        assert [len(stage.epochs) for stage in proposal.job.stages()] in ([1, 2], [2, 1])
        shares.append(proposal.knobs[SHARE])
        trial = create_trial(value=0.0, params=proposal.knobs, distributions=proposal.distributions)
        trial.number = number
        proposer.remember(trial)
    assert shares[0] == 0.5
    assert len(set(shares)) == 12


def test_the_batches_of_stages_must_divide_among_the_workers(plan):
    with pytest.raises(ConfigError, match="got 6 and 4"):
        plan({"stages.classify.batch.size": 6}).check_workers(4)
    text = "knobs:\n  stages.classify.batch.size: {choices: [32, 36]}\n"
    plan(text=text).check_workers(4)
    with pytest.raises(ConfigError, match="got 36 and 8"):
        plan(text=text).check_workers(8)


def test_the_space_of_mulcon_searches_the_length_of_its_first_stage(label_store):
    (knob,) = [knob for knob in load_space("mulcon").knobs if knob.name == SHARE]
    assert knob.domain.contains(0.5)
    data = str(label_store.path)
    cases: list[tuple[dict[str, Value], bool]] = [
        ({}, True),
        ({"stages": None}, False),
        ({SHARE: 0.3}, False),
    ]
    for settings, searched in cases:
        made = plan_study(method="mulcon", data=data, settings=settings)
        assert (SHARE in made.spec.space) == searched


@pytest.mark.parametrize(("recipe", "searched"), [("mulcon/coco", True), ("small-labels", False)])
def test_rates_of_a_stage_are_searched_where_a_recipe_gives_it_its_own(
    label_store, recipe, searched
):
    for method in ("mulcon", "bce"):
        plan = plan_study(method=method, data=str(label_store.path), settings={}, recipe=recipe)
        names = {knob.name for knob in plan.space.knobs}
        assert (RATE in names) == searched
        assert ("stages.classify.optimizer.lr.attention" in names) == (
            searched and method == "mulcon"
        )


def test_stages_of_the_user_s_own_can_be_searched(toy_store, tmp_path):
    rate = "stages.own.optimizer.lr.backbone"
    (tmp_path / "space.yaml").write_text(f"knobs:\n  {rate}: {{low: 0.001, high: 0.1}}\n")
    plan = plan_study(
        method="triplet",
        data=str(toy_store.path),
        settings={"stages.own.share": 0.3},
        space_file=tmp_path / "space.yaml",
    )
    (first,) = first_proposals(plan.spec.job, plan.space, {})
    assert first.knobs == {rate: value_in(plan.spec.job, "optimizer.lr.backbone")}
    changed = Proposer(plan.spec, plan.space).propose().job.stages()
    assert [stage.name for stage in changed] == ["own", "last"]

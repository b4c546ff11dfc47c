"""What the next trial tries, also in a study that was opened anew."""

from contextlib import closing
from dataclasses import replace

import pytest

from hsearch.search import proposal
from hsearch.search.domain import Interval, KnobRange
from hsearch.search.record import Sampler
from hsearch.search.study import Study
from tests.search.made_study import (
    SPACE,
    finish,
    made_spec,
    outcome,
    search,
)


def test_trial_0_has_the_published_values_and_start_points_follow_once_each(opened):
    study = opened()
    first, second, third = (finish(study, study.propose()) for _ in range(3))
    job = made_spec().job
    assert (first.source, second.source, third.source) == ("published", "a paper", "tpe")
    assert first.knobs == {
        "method.base": job.method.knobs["base"],
        "method.fine_margin": job.method.knobs["fine_margin"],
        "method.fine_scale": job.method.knobs["fine_scale"],
        "optimizer.lr.proxies": 0.03,
    }
    assert first.job.method == job.method
    assert "method.fine_margin" not in second.knobs
    assert second.job.method.knobs["fine_scale"] == second.knobs["method.fine_scale"] == 9.0
    assert second.job.method.knobs["fine_margin"] == job.method.knobs["fine_margin"]


def test_a_published_value_outside_the_range_is_moved_inside_and_said(opened):
    narrow = replace(SPACE, knobs=(KnobRange("method.num_coarse", Interval(2, 4)),), start=())
    trial = opened(space=narrow).propose()
    assert trial.knobs == {"method.num_coarse": 4}
    assert trial.source == "published, with method.num_coarse 4 instead of 10"


def test_a_knob_without_a_value_in_the_job_begins_at_the_low_end(opened):
    knobs = (KnobRange("optimizer.clip_norm", Interval(0.5, 10.0, log=True)),)
    trial = opened(space=replace(SPACE, knobs=knobs, start=())).propose()
    assert trial.job.training.optimizer.clip_norm == 0.5
    assert "0.5 instead of None" in trial.source


def test_conditions_on_fixed_knobs_use_the_value_of_the_job(opened):
    fixed = replace(SPACE, knobs=SPACE.knobs[1:], start=())
    spec = made_spec(fixed)
    method = spec.job.method.model_copy(
        update={"knobs": {**spec.job.method.knobs, "base": "proxy_nca"}}
    )
    spec = spec.model_copy(update={"job": spec.job.model_copy(update={"method": method})})
    study = opened(spec, fixed)
    assert all("method.fine_margin" not in study.propose().knobs for _ in range(4))


def test_knobs_that_do_not_fit_together_are_drawn_again(opened):
    knobs = (KnobRange("batch.per_class", Interval(1, 64)),)
    study = opened(space=replace(SPACE, knobs=knobs, start=()))
    for _ in range(6):
        assert 64 % study.propose().job.training.batch.per_class == 0


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_opened_anew_before_every_trial_a_study_proposes_the_same(tmp_path, sampler: Sampler):
    spec = made_spec(sampler=sampler)
    with closing(Study.open("s", str(tmp_path / "whole.db"), spec, SPACE)) as study:
        whole = search(study, 14)
    for count in (1, 2, 5, 9, 11, 12, 14):
        with closing(Study.open("s", str(tmp_path / "parts.db"), spec, SPACE)) as study:
            study.take_over()
            parts = search(study, count)
    assert outcome(parts) == outcome(whole)
    assert {"complete", "lost"} == {trial.state for trial in whole.trials}


def test_a_gaussian_process_that_is_opened_anew_proposes_the_same(tmp_path):
    spec = made_spec(sampler="gp")
    with closing(Study.open("s", str(tmp_path / "whole.db"), spec, SPACE)) as study:
        whole = search(study, 11)
    with closing(Study.open("s", str(tmp_path / "parts.db"), spec, SPACE)) as study:
        search(study, 9)
        study.propose()  # and ended in the midst of trial 9
    with closing(Study.open("s", str(tmp_path / "parts.db"), spec, SPACE)) as study:
        study.take_over()
        assert outcome(search(study, 11)) == outcome(whole)
    assert [trial.source for trial in whole.trials[8:]] == ["gp"] * 3


def test_a_gaussian_process_learns_from_lost_trials_too(opened):
    study = opened(made_spec(sampler="gp"))
    record = search(study, 12)
    assert sum(trial.state == "complete" for trial in record.trials) < 8
    assert study._proposer is not None
    copied = study._proposer._copied()
    assert [trial.state.name for trial in copied] == ["COMPLETE"] * 12


def test_proposals_made_side_by_side_differ(opened):
    study = opened()
    search(study, 10)
    knobs = [study.propose().knobs for _ in range(4)]
    assert all(a != b for i, a in enumerate(knobs) for b in knobs[:i])


def test_in_a_long_study_the_sampler_sees_the_newest_trials_and_the_best_of_the_others(
    opened, monkeypatch
):
    monkeypatch.setattr(proposal, "NEWEST_SHOWN", 6)
    monkeypatch.setattr(proposal, "BEST_SHOWN", 1)
    study = opened()
    record = search(study, 12)
    running = study.propose()
    assert study._proposer is not None
    shown = study._proposer._copy.get_all_trials(0, deepcopy=False)
    old = [trial for trial in record.trials[:6] if trial.state == "complete"]
    best = max(old, key=lambda trial: trial.score or 0.0)
    assert [trial.number for trial in shown] == [best.number, *range(6, 12), running.number]
    assert opened().propose().knobs == study.propose().knobs, "the same in a study opened anew"

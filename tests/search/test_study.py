"""The study's record: what is stored, decided and found again."""

import math

import optuna
import pytest

from hsearch.errors import ConfigError
from tests.search.made_results import made_result
from tests.search.made_study import (
    finish,
    fold_of,
    formula,
    made_spec,
    read,
)


def test_every_fold_is_stored_and_the_mean_decides(opened, storage):
    study = opened(made_spec(race=False))
    trial = study.propose()
    for fold, score in enumerate([0.4, 0.6, 0.5, 0.7]):
        assert trial.state == "running"
        trial = study.record_fold(0, made_result(fold_of(trial, fold), score))
    assert trial.state == "complete"
    assert trial.score == pytest.approx(0.55)
    assert read(storage).trials == study.record().trials
    (stored,) = optuna.load_study(study_name="s", storage=f"sqlite:///{storage}").trials
    assert stored.value == pytest.approx(0.55)
    assert stored.intermediate_values == pytest.approx({0: 0.4, 1: 0.5, 2: 0.5, 3: 0.55})


def test_a_trial_far_behind_is_lost_after_one_fold_and_can_never_be_the_best(opened, storage):
    study = opened()
    best = finish(study, study.propose())
    lost = study.propose()
    lost = study.record_fold(lost.number, made_result(fold_of(lost, 0), 0.1))
    assert (lost.state, len(lost.folds)) == ("lost", 1)
    assert lost.reason is not None
    assert "behind the best trial (0) on 1 fold" in lost.reason
    record = read(storage)
    assert record.best is not None
    assert record.best.number == best.number
    assert record.folds_saved == 3


def test_without_the_race_folds_come_in_any_order_and_nobody_loses(opened, storage):
    study = opened(made_spec(race=False))
    finish(study, study.propose())
    trial = study.propose()
    for fold in (2, 0, 3):
        trial = study.record_fold(1, made_result(fold_of(trial, fold), 0.01))
        assert trial.state == "running"
    stored = optuna.load_study(study_name="s", storage=f"sqlite:///{storage}").trials[1]
    assert set(stored.intermediate_values) == {0}
    assert study.record_fold(1, made_result(fold_of(trial, 1), 0.01)).state == "complete"


def test_a_fold_that_comes_twice_or_late_changes_nothing(opened, storage):
    study = opened()
    trial = study.propose()
    once = study.record_fold(0, formula(fold_of(trial, 0)))
    assert study.record_fold(0, made_result(fold_of(trial, 0), 0.9)) == once
    failed = study.fail(0, "it diverged")
    assert study.record_fold(0, formula(fold_of(trial, 1))) == failed
    assert study.fail(0, "again") == failed
    assert read(storage).trials == (failed,)


def test_a_failed_trial_has_its_reason_and_the_search_goes_on(opened):
    study = opened()
    study.propose()
    failed = study.fail(0, "the loss\n  is nan\n")
    assert (failed.state, failed.reason) == ("failed", "the loss is nan")
    assert failed.ended is not None
    assert finish(study, study.propose()).state == "complete"


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_no_number_fails_the_trial(opened, score):
    study = opened()
    trial = study.propose()
    result = made_result(fold_of(trial, 0), 0.5).model_copy(update={"score": score})
    trial = study.record_fold(0, result)
    assert trial.state == "failed"
    assert "score of fold 0" in str(trial.reason)


def test_a_result_of_another_job_is_refused(opened):
    study = opened()
    trial = study.propose()
    other = trial.job.model_copy(update={"seed": 9})
    with pytest.raises(ValueError, match="not of trial 0's job"):
        study.record_fold(0, made_result(other, 0.5))
    with pytest.raises(ConfigError, match="no trial 7, but 1"):
        study.record_fold(7, made_result(trial.job, 0.5))


def test_runs_are_noted_for_running_and_ended_trials_and_the_study(opened, storage):
    study = opened()
    trial = study.propose()
    study.note_run("early", 0)
    finish(study, trial)
    study.note_run("late", 0)
    study.note_run("whole")
    record = read(storage)
    assert (record.run_id, record.trials[0].run_id) == ("whole", "late")
    assert record == study.record()
    assert {"hsearch", "optuna", "torch"} <= set(record.versions)

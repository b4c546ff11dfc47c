"""A study whose driver is killed at any moment ends as one that was never interrupted."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import optuna
import pytest

from hsearch.errors import ConfigError
from hsearch.search.lease import Lease
from hsearch.search.study import Study
from tests.search.made_study import (
    SPACE,
    fold_of,
    formula,
    kill_a_driver,
    made_spec,
    outcome,
    read,
    search,
)


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> list[tuple[object, ...]]:
    path = tmp_path_factory.mktemp("whole") / "studies.db"
    with closing(Study.open("s", str(path), made_spec(), SPACE)) as whole:
        return outcome(search(whole, 6))


@pytest.mark.parametrize("writes", range(1, 9))
def test_a_kill_between_any_two_writes_is_completed_at_the_next_opening(
    opened, uninterrupted, monkeypatch, writes
):
    study = opened()
    search(study, 3)
    left = writes

    def counted(write: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return write(*args)

        return call

    for name in [
        "create_new_trial",
        "set_trial_user_attr",
        "set_trial_intermediate_value",
        "set_trial_state_values",
    ]:
        monkeypatch.setattr(study._optuna, name, counted(getattr(study._optuna, name)))
    with pytest.raises(Killed):
        search(study, 6)
    assert outcome(search(opened(), 6)) == uninterrupted


def test_a_driver_killed_twice_ends_in_the_table_of_an_uninterrupted_one(opened, storage, tmp_path):
    with closing(Study.open("s", str(tmp_path / "whole.db"), made_spec(), SPACE)) as whole:
        expected = outcome(search(whole, 12))
    for trials in (3, 7):
        kill_a_driver(storage, trials)
    assert outcome(search(opened(), 12)) == expected


def test_a_kill_while_a_trial_is_being_failed_leaves_it_failed(opened, monkeypatch):
    study = opened()
    study.propose()
    monkeypatch.setattr(study, "_end", lambda *_: (_ for _ in ()).throw(Killed()))
    with pytest.raises(Killed):
        study.fail(0, "the loss is nan")
    (trial,) = opened().record().trials
    assert (trial.state, trial.reason) == ("failed", "the loss is nan")


def test_opening_alone_writes_nothing_to_what_another_driver_may_be_writing(opened, storage):
    study = opened()
    trial = study.propose()
    fold = formula(fold_of(trial, 0))
    study._optuna.set_trial_user_attr(study._key(0), "fold0", fold.to_dict())  # not yet decided
    with closing(sqlite3.connect(storage)) as connection:
        before = list(connection.iterdump())
        with closing(Study.open("s", storage, made_spec(), SPACE)) as other:
            assert other.record().trials[0].folds == {0: fold}
            assert list(connection.iterdump()) == before
            study.record_fold(0, fold)
            other.take_over()
            assert other.record().trials == study.record().trials


def test_a_kill_while_the_study_is_made_is_no_foreign_study(opened, storage):
    optuna.create_study(study_name="s", storage=f"sqlite:///{storage}", direction="maximize")
    assert opened().propose().number == 0


def test_a_study_without_a_trial_takes_the_settings_of_its_next_driver(opened, storage):
    opened()
    late = Study.open("s", storage, made_spec(sampler="gp"), SPACE)
    with closing(late):
        assert read(storage).spec.sampler == "tpe", "nothing is written without the lease"
        other = opened(made_spec(sampler="random"))
        assert (
            read(storage).spec == other.spec == other.record().spec == made_spec(sampler="random")
        )
        other.propose()
        with pytest.raises(ConfigError, match=r"sampler: 'random', now 'gp'"), Lease(late):
            pass
        assert late.attribute("driver") is None
    assert read(storage).spec.sampler == "random"

"""The study's record: what is proposed, stored, decided and found again."""

import json
import math
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from wsgiref.util import setup_testing_defaults

import optuna
import pytest

from hsearch.errors import ConfigError
from hsearch.search.domain import Interval, KnobRange
from hsearch.search.lease import Lease
from hsearch.search.record import Sampler, StudySpec
from hsearch.search.study import Study, study_names
from tests.search.made_results import made_result
from tests.search.made_study import (
    SPACE,
    finish,
    fold_of,
    formula,
    kill_a_driver,
    made_spec,
    outcome,
    search,
)

Open = Callable[..., Study]


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return str(tmp_path / "studies.db")


@pytest.fixture
def opened(storage: str) -> Iterator[Open]:
    """Opens the study `s` as a driver; all are closed after the test."""
    studies = []

    def open_study(spec: StudySpec | None = None, space=SPACE, name: str = "s") -> Study:
        studies.append(Study.open(name, storage, spec or made_spec(space), space))
        studies[-1].take_over()
        return studies[-1]

    yield open_study
    for study in studies:
        study.close()


def read(storage: str):
    with closing(Study.load("s", storage)) as study:
        return study.record()


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


def test_other_settings_are_refused_by_name(opened):
    opened().propose()
    with pytest.raises(ConfigError, match=r"job\.seed: 0, now 3; sampler: 'tpe', now 'gp'"):
        opened(made_spec(sampler="gp", seed=3))
    changed = made_spec().job.model_copy(update={"data_digest": "1" * 64})
    with pytest.raises(ConfigError, match="data set 'made' has changed"):
        opened(made_spec().model_copy(update={"job": changed}))


def test_folds_recorded_without_ranks_and_threads_are_read(opened, storage):
    study = opened()
    fold = formula(study.propose().job).to_dict()
    assert (fold.pop("ranks"), fold.pop("threads")) == (1, None)
    study._optuna.set_trial_user_attr(study._key(0), "fold0", fold)
    result = read(storage).trials[0].folds[0]
    assert (result.ranks, result.threads) == (1, None)


def test_unknown_foreign_and_newer_studies_are_refused(opened, storage):
    study = opened()
    with pytest.raises(ConfigError, match=r"no study 'sx' in .*Did you mean 's'"):
        Study.load("sx", storage)
    url = f"sqlite:///{storage}"
    foreign = optuna.create_study(study_name="foreign", storage=url)
    foreign.add_trial(optuna.trial.create_trial(value=1.0))
    for open_it in (lambda: opened(name="foreign"), lambda: Study.load("foreign", storage)):
        with pytest.raises(ConfigError, match=r"'foreign' in .* was not made by hsearch"):
            open_it()
    assert study_names(storage) == ["s"]
    study.set_attribute("hsearch", 2)
    with pytest.raises(ConfigError, match=r"newer hsearch \(format 2, this one reads 1"):
        Study.load("s", storage)


def test_storages_that_cannot_be_used_are_said_in_a_sentence_without_the_password(tmp_path):
    (tmp_path / "text.db").write_text("no database\n" * 100)
    cases = {
        str(tmp_path / "no" / "x.db"): "folder of the storage .* does not exist",
        str(tmp_path): "is a folder",
        str(tmp_path / "text.db"): "file is not a database",
        "postgresql://u:SECRET@127.0.0.1:1/x": r"u:\*\*\*@127.0.0.1:1/x cannot be opened",
        "nosuch://u:SECRET@host/x": "cannot be opened",
        "mysql+mysqldb://u:SECRET@host/x": "needs a database driver",
        "postgresql://u:SECRET@host:port/x": "cannot be read",
        "sqlite://": "must outlive",
    }
    for storage, message in cases.items():
        with pytest.raises(ConfigError, match=message) as caught:
            Study.open("s", storage, made_spec(), SPACE)
        assert "SECRET" not in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    missing = tmp_path / "missing.db"
    with pytest.raises(ConfigError, match="There is no storage"):
        Study.load("s", str(missing))
    assert not missing.exists()


def test_a_plain_path_and_its_url_are_the_same_storage(opened, storage):
    opened().propose()
    with closing(Study.load("s", f"sqlite:///{storage}")) as study:
        assert len(study.record().trials) == 1


def test_readers_and_the_driver_never_find_the_file_locked(opened, storage):
    study = opened(made_spec(race=False, sampler="random"))
    ended = threading.Event()
    failures: list[BaseException] = []

    def look() -> None:
        try:
            with closing(Study.load("s", storage)) as reader:
                while not ended.is_set():
                    assert len(reader.record().trials) <= 12
        except BaseException as error:  # noqa: BLE001 (told to the test's own thread)
            failures.append(error)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    search(study, 12)
    ended.set()
    for reader in readers:
        reader.join()
    assert failures == []
    with closing(sqlite3.connect(storage)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_other_threads_read_whole_records_while_the_driver_writes(opened):
    study = opened(made_spec(sampler="random"))
    ended, seen = threading.Event(), []

    def look() -> None:
        while not ended.is_set():
            seen.append(study.record())
            study.note_run(str(len(seen)))

    reader = threading.Thread(target=look)
    reader.start()
    search(study, 8)
    ended.set()
    reader.join()
    assert all(trial.job and trial.source for record in seen for trial in record.trials)
    counts = [record.folds_trained for record in seen]
    assert counts == sorted(counts)


def test_optuna_dashboard_opens_the_study(opened, storage):
    from optuna_dashboard import wsgi  # type: ignore[import-untyped]

    study = opened()
    search(study, 6)
    study.propose()
    app = wsgi(f"sqlite:///{storage}")
    answers = []
    environ: dict[str, object] = {"PATH_INFO": "/api/studies/1", "QUERY_STRING": "after=0"}
    setup_testing_defaults(environ)
    body = b"".join(app(environ, lambda status, *_: answers.append(status)))
    shown = json.loads(body)
    assert answers == ["200 OK"]
    assert [trial["state"] for trial in shown["trials"]][:2] == ["Complete", "Complete"]
    assert shown["trials"][6]["state"] == "Running"


def test_reading_a_study_needs_no_torch(opened, storage):
    search(opened(), 2)
    code = (
        "import sys; from hsearch.search.study import Study\n"
        f"assert len(Study.load('s', {storage!r}).record().trials) == 2\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

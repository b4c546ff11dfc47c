"""The tracker against MLflow's real SQLite store, with calls that fail at every possible place."""

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import mlflow
import pytest

from hsearch.errors import ConfigError
from hsearch.tracking import tracker as tracker_module
from hsearch.tracking.tables import validation_table
from hsearch.tracking.tracker import Tracker
from hsearch.tracking.writer import open_client
from tests.tracking.made_records import MadeStudy, growing, made_study, made_trial

SCORES = (0.5, 0.6, 0.55, 0.62)


def track(study: MadeStudy, uri: str, *, over: bool = True) -> None:
    tracker = Tracker(study.record, study.note_run, uri)
    assert tracker.close(60, over=over), tracker.behind


def wait_for(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_growing_study_and_its_last_state_alone_give_the_same_runs(uri, contents, tmp_path):
    states = growing(3)
    study = MadeStudy(states[0])
    tracker = Tracker(study.record, study.note_run, uri)
    for state in states:
        study.now = state
        tracker.wake()
        wait_for(lambda: tracker.behind is None)
    assert tracker.close(60)
    grown = contents()
    track(MadeStudy(states[-1].model_copy(update={"name": "at once"})), uri)
    at_once = contents()
    for table, rows in grown.items():
        others = [row for row in at_once[table] if row not in rows]
        renamed = {(row[0].replace("at once", "hpl-a1b2c3"), *row[1:]) for row in others}
        own = {"hsearch.study", "hsearch.id", "hsearch.artifact"}
        assert {r for r in rows if r[1] not in own} == {r for r in renamed if r[1] not in own}


def test_search_runs_shows_what_the_ui_needs(uri):
    record = growing(4)[-1]
    assert (best := record.best)
    track(MadeStudy(record), uri)
    mlflow.set_tracking_uri(uri)
    try:
        runs = mlflow.search_runs(experiment_names=["hsearch/made"])
    finally:
        mlflow.set_tracking_uri("")
    runs = runs.set_index("tags.mlflow.runName")
    study = runs.loc["hpl-a1b2c3"]
    trials = runs.drop("hpl-a1b2c3").sort_index()
    assert list(trials.index) == [f"trial-{n:03d} of hpl-a1b2c3" for n in range(4)]
    assert set(trials["tags.mlflow.parentRunId"]) == {study.run_id}
    assert list(trials.status) == ["FINISHED", "KILLED", "FAILED", "FINISHED"]
    assert study.status == "FINISHED"
    assert study["metrics.score/val"] == pytest.approx(best.score)
    assert study["metrics.search/best_trial"] == best.number
    assert list(trials["metrics.score/val"].isna()) == [False, True, True, False]
    assert list(trials["params.method.num_coarse"]) == ["4", "5", "6", "7"]


def test_run_ids_are_noted_and_the_spec_lies_beside_the_database(uri, database):
    study = MadeStudy(growing(2)[-1])
    track(study, uri)
    assert [number for _, number in study.notes] == [None, 0, 1]
    run = open_client(uri).get_run(study.notes[0][0])
    folder = Path(unquote(urlsplit(run.info.artifact_uri).path))
    assert folder.is_relative_to(database.parent / "mlruns")
    assert json.loads((folder / "study.json").read_text()) == study.now.spec.to_dict()


def test_all_metrics_of_the_best_trial_are_a_table_that_mlflow_reads(uri):
    study = MadeStudy(made_study(made_trial(0, "complete", SCORES)))
    track(study, uri)
    (run_id, _), *_ = study.notes
    client = open_client(uri)
    run = client.get_run(run_id)
    mlflow.set_tracking_uri(uri)  # the client itself searches there
    try:
        table = client.load_table(run.info.experiment_id, "metrics/validation.json", [run_id])
    finally:
        mlflow.set_tracking_uri("")
    table = table.set_index("metric")
    assert len(run.data.metrics) < 13
    assert set(table.index) == set(study.now.trials[0].folds[0].validation)
    assert list(table.loc["map_at_r"]["fold 0":"fold 3"]) == pytest.approx(list(SCORES))
    assert table.loc["map_at_r", "mean"] == pytest.approx(sum(SCORES) / 4)
    better = made_trial(1, "complete", tuple(score + 0.1 for score in SCORES))
    study.now = made_study(*study.now.trials, better)
    track(study, uri)
    folder = Path(unquote(urlsplit(run.info.artifact_uri).path))
    rows = json.loads((folder / "metrics" / "validation.json").read_text())["data"]
    assert rows[0][0] == "map_at_r"
    assert rows[0][1] == pytest.approx(sum(SCORES) / 4 + 0.1)


def test_the_table_has_the_floor_beside_the_means():
    trial = made_trial(0, "complete", SCORES)
    folds = {
        fold: result.model_copy(update={"floor": {"map_at_r": 0.1 * fold}})
        for fold, result in trial.folds.items()
    }
    table = json.loads(validation_table(trial.model_copy(update={"folds": folds})))
    floors = {row[0]: row[table["columns"].index("floor")] for row in table["data"]}
    assert floors["map_at_r"] == pytest.approx(0.15)
    assert floors["r_precision"] is None, "it was not recorded"


def test_a_study_of_an_earlier_edition_gets_the_new_metrics_on_its_old_runs(uri, query):
    record = growing(4)[-1]
    study = MadeStudy(record)
    track(study, uri)
    # As earlier editions wrote it: other names, and no view.
    for table in ("metrics", "latest_metrics"):
        query(f"update {table} set key = 'trials/complete' where key = 'search/trials'")
        query(f"delete from {table} where key like 'score/%' or key like 'search/%'")
    query("delete from experiment_tags")
    notes = list(study.notes)
    study.now = growing(5)[-1]
    track(study, uri)
    assert study.notes[: len(notes)] == notes
    steps = "select step from metrics m join runs r using (run_uuid) where r.name = 'hpl-a1b2c3' "
    assert query(steps + "and key = 'search/trials' order by step") == [(n,) for n in range(1, 6)]
    assert len(query(steps + "and key = 'trials/complete'")) == 4, "old numbers stay"
    assert len(query("select * from latest_metrics where key = 'score/val'")) == 3
    assert len(query("select * from experiment_tags")) == 1


def test_a_resume_adds_to_the_same_runs_and_doubles_nothing(uri, contents, query):
    states = growing(3)
    study = MadeStudy(states[6])
    track(study, uri, over=False)
    assert query("select status from runs where name = 'hpl-a1b2c3'") == [("KILLED",)]
    assert ("RUNNING",) not in query("select status from runs"), "interrupted trials are not alive"
    notes = list(study.notes)
    study.now = states[-1]
    track(study, uri)
    assert study.notes[: len(notes)] == notes
    assert len(study.notes) == len({number for _, number in study.notes}) == 4
    resumed = contents()
    track(MadeStudy(states[-1]), uri)
    assert contents() == resumed


def test_best_knobs_that_no_longer_exist_disappear(uri, contents):
    first = made_trial(0, "complete", (0.1,) * 4)
    other = {"method.base": "proxy_nca"}
    second = made_trial(1, "complete", (0.9,) * 4).model_copy(update={"knobs": other})
    study = MadeStudy(made_study(first))
    track(study, uri)
    study.now = made_study(first, second)
    track(study, uri)
    best = {key: value for _, key, value in contents()["tags"] if key.startswith("best.")}
    assert best == {"best.method.base": "proxy_nca"}


class Breaking:
    """A client whose n-th call fails: before it is carried out, or with its answer lost."""

    def __init__(self, client, nth: int, *, carried_out: bool) -> None:
        self._client, self._left, self._carried_out = client, nth, carried_out

    @property
    def broke(self) -> bool:
        return self._left <= 0

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self._left -= 1
            if self._left == 0 and not self._carried_out:
                raise ConnectionResetError("broken before")
            answer = getattr(self._client, name)(*args, **kwargs)
            if self._left == 0:
                raise ConnectionResetError("broken after")
            return answer

        return call


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_call_that_fails_anywhere_leaves_no_trace(
    uri, contents, monkeypatch, no_pause, carried_out
):
    for nth in range(1, 100):
        client = Breaking(open_client(uri), nth, carried_out=carried_out)
        monkeypatch.setattr(tracker_module, "open_client", lambda uri, client=client: client)
        study = MadeStudy(growing(2, name=f"study-{nth:02d}")[-1])
        track(study, uri)
        assert len(study.notes) == len({number for _, number in study.notes}) == 3
        if not client.broke:
            break
    assert nth > 10
    for table, rows in contents().items():
        by_study: dict[str, list[tuple]] = {}
        for name, *rest in rows:
            if rest[0] not in ("hsearch.study", "hsearch.id"):
                by_study.setdefault(name[-8:], []).append((name[:-8], *rest))
        expected = by_study.pop(f"study-{nth:02d}")
        assert len(by_study) == nth - 1
        assert all(found == expected for found in by_study.values()), table


class StoreError(Exception):
    """As artifact stores raise: derived from nothing that is known here."""


def test_an_error_of_an_unknown_kind_is_told_and_tried_again(
    uri, contents, monkeypatch, no_pause, capfd
):
    client, broken = open_client(uri), threading.Event()
    log_text = client.log_text

    def log_or_break(*arguments):
        if broken.is_set():
            raise StoreError("Unable to locate credentials")
        log_text(*arguments)

    broken.set()
    monkeypatch.setattr(client, "log_text", log_or_break)
    monkeypatch.setattr(tracker_module, "open_client", lambda uri: client)
    study = MadeStudy(growing(1)[-1])
    tracker = Tracker(study.record, study.note_run, uri)
    wait_for(lambda: "Unable to locate credentials" in str(tracker.behind))
    broken.clear()
    assert tracker.close(60), tracker.behind
    assert ("hpl-a1b2c3", "FINISHED") in {row[:2] for row in contents()["runs"]}
    assert capfd.readouterr() == ("", "")


def test_a_tracker_whose_study_is_lost_writes_nothing_more(uri, contents, monkeypatch):
    states, lost = growing(3), threading.Event()
    client = open_client(uri)
    log_batch = client.log_batch
    monkeypatch.setattr(tracker_module, "open_client", lambda uri: client)
    study = MadeStudy(states[3])
    tracker = Tracker(study.record, study.note_run, uri, lost)
    wait_for(lambda: tracker.behind is None)
    notes = list(study.notes)

    def lose_meanwhile(*arguments):
        log_batch(*arguments)
        lost.set()

    monkeypatch.setattr(client, "log_batch", lose_meanwhile)
    study.now = states[-1]
    tracker.wake()  # is lost while the first of three trials is written
    wait_for(lambda: not tracker._thread.is_alive())
    assert study.notes == notes
    written = contents()
    assert ("hpl-a1b2c3", "RUNNING") in {row[:2] for row in written["runs"]}
    start = time.monotonic()
    assert not tracker.close(30, over=False)
    assert time.monotonic() - start < 5
    assert contents() == written


def test_a_second_run_of_a_trial_made_by_a_lost_answer_is_removed(uri, contents, query):
    study = MadeStudy(growing(1)[-1])
    track(study, uri)
    before = contents()
    client = open_client(uri)
    first = client.get_run(study.notes[1][0])
    client.create_run(first.info.experiment_id, start_time=1, tags=first.data.tags)
    track(study, uri)
    assert contents() == before
    assert study.notes[1:] == [(first.info.run_id, 0)]
    assert query("select count(*) from runs where lifecycle_stage = 'deleted'") == [(1,)]


def test_runs_and_experiments_deleted_in_the_ui_do_not_stop_the_tracker(uri, contents, no_pause):
    states = growing(2)
    study = MadeStudy(states[3])
    tracker = Tracker(study.record, study.note_run, uri)
    wait_for(lambda: tracker.behind is None)
    client = open_client(uri)
    client.delete_run(study.notes[1][0])
    study.now = states[-1]
    tracker.wake()
    assert tracker.close(60)
    assert {row[0] for row in contents()["runs"]} >= {"hpl-a1b2c3", "trial-000 of hpl-a1b2c3"}
    experiment = client.get_run(study.notes[0][0]).info.experiment_id
    client.delete_experiment(experiment)
    track(MadeStudy(states[-1]), uri)
    assert client.get_experiment(experiment).lifecycle_stage == "active"


def test_a_wrong_address_is_refused_before_anything_starts():
    threads = threading.active_count()
    study = MadeStudy(growing(1)[0])
    with pytest.raises(ConfigError, match="address"):
        Tracker(study.record, study.note_run, "ftp://host")
    assert threading.active_count() == threads


def test_a_server_that_never_answers_costs_the_driver_nothing(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        study = MadeStudy(growing(2)[-1])
        start = time.monotonic()
        uri = f"http://user:secret@127.0.0.1:{silent.getsockname()[1]}"
        tracker = Tracker(study.record, study.note_run, uri)
        for _ in range(100):
            tracker.wake()
        assert time.monotonic() - start < 2
        wait_for(lambda: "in time" in str(tracker.behind))
        start = time.monotonic()
        assert not tracker.close(0.3)
        assert time.monotonic() - start < 2
        assert "2 of 2 trials" in str(tracker.behind)
        assert "secret" not in str(tracker.behind)
        wait_for(lambda: not tracker._thread.is_alive())


class Forbidden(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(403)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *args) -> None:
        pass


def test_a_refused_access_is_told_with_what_to_check(no_pause):
    with HTTPServer(("127.0.0.1", 0), Forbidden) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        study = MadeStudy(growing(1)[-1])
        uri = f"http://user:secret@127.0.0.1:{server.server_port}"
        tracker = Tracker(study.record, study.note_run, uri)
        wait_for(lambda: "refuses access (403)" in str(tracker.behind))
        assert not tracker.close(0.1)
        assert "MLFLOW_TRACKING_USERNAME" in str(tracker.behind)
        assert "secret" not in str(tracker.behind)
        wait_for(lambda: not tracker._thread.is_alive())
        server.shutdown()
        thread.join()


def test_a_study_without_trials_makes_no_run(uri, contents):
    track(MadeStudy(made_study()), uri)
    assert contents()["runs"] == []


def test_a_store_that_takes_long_to_open_is_no_trouble(uri, monkeypatch):
    opened, may_open = threading.Event(), threading.Event()

    def slowly(address):
        opened.set()
        may_open.wait(30)
        return open_client(address)

    monkeypatch.setattr(tracker_module, "open_client", slowly)
    study = MadeStudy(growing(2)[-1])
    tracker = Tracker(study.record, study.note_run, uri)
    assert opened.wait(30)
    assert not tracker.in_trouble
    assert tracker.behind is not None
    assert tracker.behind.endswith("yet: it is being opened.")
    may_open.set()
    assert tracker.close(60)

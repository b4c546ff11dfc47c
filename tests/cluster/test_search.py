"""A search from the command line, on real Ray, with a real record and real MLflow."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cluster.searches import Search, is_alive, processes_of, scores, wait_until
from tests.search.postgres import postgres_server


@pytest.fixture(scope="module")
def searched(tmp_path_factory, toy_store):
    """A finished search of 4 trials on two groups."""
    search = Search(tmp_path_factory.mktemp("searched"), toy_store, "--trials=4")
    with search.started() as process:
        wait_until(lambda: "fold 0" in search.printed(), "first fold")
        search.pid, search.processes = process.pid, processes_of(process.pid)
        process.wait(240)
    assert process.returncode == 0, search.printed()
    return search


def test_every_trial_is_complete_with_all_folds_or_says_why_not(searched):
    trials = searched.record()["trials"]
    assert [trial["number"] for trial in trials] == [0, 1, 2, 3]
    for trial in trials:
        assert trial["state"] in ("complete", "lost")
        assert (trial["state"] == "complete") == (len(trial["folds"]) == 4)
        assert (trial["reason"] is None) == (trial["state"] == "complete")
        assert trial["run_id"]
        for fold, result in trial["folds"].items():
            assert result["job"] == {**trial["job"], "fold": int(fold)}
            assert result["versions"]["torch"]


def test_the_first_trials_are_the_published_values_and_the_start_points(searched):
    sources = [trial["source"] for trial in searched.record()["trials"]]
    assert "published" in sources[0]
    assert all("Musgrave" in source for source in sources[1:4])


def test_the_output_shows_arithmetic_folds_best_and_what_to_do_next(searched):
    printed = searched.printed()
    cores = len(os.sched_getaffinity(0))
    assert f"1 node with {cores} CPUs" in printed
    assert "trial 0  fold 0  MAP@R" in printed
    assert "new best" in printed
    assert "hsearch train --like toy/best" in printed
    assert "hsearch ui" in printed
    assert "\x1b" not in printed
    assert "WARNING" not in printed
    assert "INFO" not in printed


def test_nothing_is_left_behind(searched):
    assert searched.processes, "the groups of the search were seen while it ran"
    wait_until(lambda: not any(map(is_alive, searched.processes)), "all processes gone")
    assert not list(Path(tempfile.gettempdir()).glob(f"hsearch-ray-*-{searched.pid}-*"))
    assert {p.name for p in searched.folder.iterdir()} >= {"hsearch.db", "mlflow.db", "studies"}


def test_only_the_networks_of_the_best_trial_are_kept(searched):
    record = searched.record()
    complete = [trial for trial in record["trials"] if trial["state"] == "complete"]
    best = max(complete, key=lambda trial: sum(scores(trial)))
    kept = [path.name for path in (searched.folder / "studies" / "toy").glob("[!.]*")]
    assert kept == [f"trial-{best['number']:04d}"]
    folder = searched.folder / "studies" / "toy" / kept[0]
    files = sorted(p.name for p in (folder / "fold-3").iterdir() if not p.name.startswith("."))
    assert files == ["best.safetensors", "job.json", "result.json"]


def test_mlflow_has_one_run_per_trial_below_the_study(searched):
    with sqlite3.connect(searched.folder / "mlflow.db") as db:
        runs = db.execute("select count(*) from runs").fetchone()[0]
        children = db.execute("select count(*) from tags where key = 'mlflow.parentRunId'")
        assert (runs, children.fetchone()[0]) == (5, 4)
    db.close()


def test_the_same_command_again_trains_nothing_and_more_trials_extend(searched):
    before = searched.table()
    assert "nothing is left to train" in searched.run()
    assert searched.table() == before
    searched.run("--trials=5")
    assert searched.table()[:4] == before
    assert len(searched.table()) == 5


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_loses_nothing_that_was_finished_and_leaves_no_process(
    tmp_path, toy_store, number, code
):
    search = Search(tmp_path, toy_store, "--trials=2", "--groups=1", "--tracking-uri=none")
    with search.started() as process:
        search.wait_for("trial 0  fold 1", process)
        family = processes_of(process.pid)
        os.killpg(process.pid, number)  # as a terminal does
        process.wait(60)
        left = [pid for pid in family if is_alive(pid)]
    assert process.returncode == code, search.printed()
    assert "same command" in search.printed()
    assert "Traceback" not in search.printed()
    assert "received" not in search.printed(), "Ray's dump of the stack"
    assert len(family) > 5
    assert left == []
    assert len(search.record()["trials"][0]["folds"]) >= 2


def test_a_search_on_postgres_and_s3_whose_best_trial_is_trained_again_bit_for_bit(
    tmp_path, toy_store, monkeypatch, s3_server
):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))
    with postgres_server() as url:
        s3_server.request("PUT", "bucket/toy.arrow", toy_store.path.read_bytes())
        monkeypatch.setenv("HSEARCH_STORAGE", url)
        address = s3_server.uri("bucket/toy.arrow")
        search = Search(tmp_path, address, "--trials=2", "--sampler=gp", "--tracking-uri=none")
        printed = search.run()
        assert not (tmp_path / "hsearch.db").exists()
        trials = search.record()["trials"]
        assert [trial["job"]["data"] for trial in trials] == [address, address]
        again = subprocess.run(
            [sys.executable, "-m", "hsearch", "train", "--like", "toy/best", "--fold", "2"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert s3_server.requests("GET", "bucket/toy.arrow") == 1, (
            "driver, workers and `train` share it"
        )
    assert "train --like toy/best" in printed
    assert "exactly the recorded one" in again.stdout

"""A search from the command line, on real Ray, with a real record and real MLflow.

However it is ended, the same command continues, and the study is that of one never interrupted.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from hsearch.data.store import Store
from tests.cluster.searches import (
    LIMIT_SECONDS,
    Search,
    history,
    is_alive,
    kill,
    processes_of,
    scores,
    wait_until,
)
from tests.cluster.started import Started
from tests.search.postgres import postgres_server

TRIALS = 3


def new_search(folder: Path, store: Store, *options: str) -> Search:
    options = (f"--trials={TRIALS}", "--groups=1", *options)
    return Search(folder, store, *options, schedule__epochs=3)


@pytest.fixture(scope="module")
def searched(tmp_path_factory, toy_store):
    """A finished search."""
    search = new_search(tmp_path_factory.mktemp("searched"), toy_store)
    search.breakpoint.set(fold=1)
    with search.started() as process:
        search.wait_for_breakpoint(process)
        search.pid, search.processes = process.pid, processes_of(process.pid)
        search.breakpoint.clear()
        process.wait(LIMIT_SECONDS)
    assert process.returncode == 0, search.printed()
    return search


def test_every_trial_is_complete_with_all_folds_or_says_why_not(searched):
    trials = searched.record()["trials"]
    assert searched.record()["level_names"] == ["level_0", "level_1", "level_2"]
    assert [trial["number"] for trial in trials] == list(range(TRIALS))
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
    assert all("Musgrave" in source for source in sources[1:])


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
        assert (runs, children.fetchone()[0]) == (TRIALS + 1, TRIALS)
    db.close()


def test_however_it_is_ended_the_same_command_continues_to_the_same_study(
    tmp_path, toy_store, searched
):
    search, second = (new_search(tmp_path, toy_store, "--tracking-uri=none") for _ in range(2))
    search.breakpoint.set(fold=1, epoch=2, step=1)
    with search.started() as driver:
        search.wait_for_breakpoint(driver)
        search.wait_for("trial 0  fold 0", driver)
        interrupt(search, driver, signal.SIGINT, exit_code=130)
    finished = search.record()["trials"][0]["folds"]["0"]
    before = lose_driver(search, fold=2)
    search.breakpoint.set(fold=3, epoch=2, step=1)
    with search.started() as driver:
        search.wait_for_breakpoint(driver)
        search.wait_for("trial 0  fold 2", driver)
        interrupt(search, driver, signal.SIGTERM, exit_code=143)
    assert len(search.record()["trials"][0]["folds"]) == 3
    search.breakpoint.set(fold=3, epoch=3, step=1)
    with search.started() as driver:
        search.wait_for_breakpoint(driver)
        kill(processes_of(driver.pid, "RayTrainWorker")[0])
        refusal = second.run(exit_code=2)
        assert str(driver.pid) in refusal, "a second driver is told who the first is"
        search.wait_for("A worker was lost while training fold 3 of trial 0", driver)
        search.breakpoint.set(trial=1, epoch=2, step=1)
        search.wait_for_breakpoint(driver)
        search.wait_for("trial 0  fold 3", driver)
        kill(processes_of(driver.pid, "TrainController")[0])
        search.wait_for("Worker group", driver)
        search.breakpoint.set(trial=1, fold=1, epoch=2, step=1)
        search.wait_for_breakpoint(driver)
        search.processes += processes_of(driver.pid)
        kill(processes_of(driver.pid, "raylet/raylet")[0])
        driver.wait(LIMIT_SECONDS)
    assert driver.returncode == 1, search.printed()
    search.breakpoint.clear()
    search.run()
    assert search.table() == searched.table()
    folds = search.record()["trials"][0]["folds"]
    assert folds["0"] == finished
    assert folds["2"]["history"][: len(before)] == before  # with the very seconds that they took
    wait_until(lambda: not any(map(is_alive, search.processes)), "Ray ends with its driver")


def interrupt(search: Search, driver: Started, number: int, exit_code: int) -> None:
    """Ends a search by a signal, which leaves no process."""
    family = processes_of(driver.pid)
    if number == signal.SIGINT:
        os.killpg(driver.pid, number)  # as a terminal does
    else:
        os.kill(driver.pid, number)  # as `kill` and schedulers do
    driver.wait(60)
    assert len(family) > 5
    wait_until(lambda: not any(map(is_alive, family)), "no process is left", seconds=30)
    assert driver.returncode == exit_code, search.printed()
    assert "same command" in search.printed()
    assert "Traceback" not in search.printed()
    assert "received" not in search.printed(), "Ray's dump of the stack"


def lose_driver(search: Search, fold: int) -> list[dict[str, Any]]:
    """Kills the driver in the middle of a fold, and returns what was known of the fold then."""
    last = search.folder / "studies" / "toy" / "trial-0000" / f"fold-{fold}" / "last.safetensors"
    search.breakpoint.set(fold=fold, epoch=2, step=1)
    with search.started() as driver:
        search.wait_for_breakpoint(driver)
        search.processes += processes_of(driver.pid)
        for pid in (*processes_of(driver.pid, "RayTrainWorker"), driver.pid):
            kill(pid)  # a worker would go on for a while without its driver
        driver.wait()
    before = history(last)
    assert len(before) == 2
    return before


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


def test_the_same_command_again_trains_nothing_and_more_trials_extend(searched):
    before = searched.table()
    assert "nothing is left to train" in searched.run()
    assert searched.table() == before
    searched.run(f"--trials={TRIALS + 1}")
    assert searched.table()[:TRIALS] == before
    assert len(searched.table()) == TRIALS + 1

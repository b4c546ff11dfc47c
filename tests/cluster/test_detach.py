"""A search whose user leaves: submitted as a Ray job, watched and stopped from elsewhere."""

import subprocess
import sys

import pytest

from tests.cluster.head import running_head
from tests.cluster.searches import Command, Search, wait_until
from tests.cluster.test_resume import history

OPTIONS = ("--trials=2", "--groups=1", "--tracking-uri=none")
LONG = {"schedule__epochs": 8, "schedule__iterations_per_epoch": 40}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, toy_store):
    search = Search(tmp_path_factory.mktemp("uninterrupted"), toy_store, *OPTIONS, **LONG)
    search.run()
    return search.table()


@pytest.fixture
def elsewhere(tmp_path_factory):
    """Runs a verb on the study from another folder."""
    folder = tmp_path_factory.mktemp("elsewhere")

    def command(search: Search, verb: str) -> Command:
        return Command(folder, verb, "toy", "--storage", str(search.folder / "hsearch.db"))

    return command


def test_a_detached_search_is_watched_stopped_and_continued(
    tmp_path, toy_store, uninterrupted, elsewhere, monkeypatch
):
    search = Search(tmp_path, toy_store, *OPTIONS, "--detach", **LONG)
    with running_head(cpus=1) as head:
        for name, value in head.environment.items():
            monkeypatch.setenv(name, value)
        printed = search.run(f"--address={head.dashboard}")
        assert "hsearch stop toy" in printed
        job = next(word for word in printed.split() if word.startswith("hsearch-toy-")).strip(";")
        assert f"Ray job {job} on " in search.record()["driver"]
        assert "is in the hands of Ray job" in search.run(f"--address={head.address}", exit_code=2)

        watcher = elsewhere(search, "attach")
        with watcher.started() as attached:
            watcher.wait_for("trial 0  fold 0", attached)
            assert "Stopped toy: the record keeps" in elsewhere(search, "stop").run()
            attached.wait(60)
        assert attached.returncode == 0, watcher.printed()
        assert "Stopped from " in watcher.printed()
        assert_paused_in_a_fold(search)

        # Ray's own way to end a job is as good as Ctrl-C.
        search.run(f"--address={head.address}")
        job = search.record()["driver"].split()[2]
        address = f"--address={head.dashboard}"
        ray = [sys.executable, "-m", "ray.scripts.scripts", "job", "stop", address, job]
        subprocess.run(ray, check=True, capture_output=True)
        wait_until(lambda: search.record()["driver"] is None, "the lease is given back", 60)
        assert not list((tmp_path / "studies" / "toy").glob(".ray-*"))
        assert "Nobody drives toy" in elsewhere(search, "stop").run()

        search.run(f"--address={head.dashboard}")
        assert "Best: trial" in elsewhere(search, "attach").run()
    assert search.table() == uninterrupted


def test_a_search_on_this_machine_is_stopped_from_elsewhere(
    tmp_path, toy_store, uninterrupted, elsewhere
):
    search = Search(tmp_path, toy_store, *OPTIONS, **LONG)
    with search.started() as driver:
        search.wait_for("trial 0  fold 0", driver)
        printed = elsewhere(search, "stop").run()
        driver.wait(60)
    assert "Stopped toy: the record keeps" in printed
    assert driver.returncode == 0, search.printed()
    assert "Stopped from " in search.printed()
    assert_paused_in_a_fold(search)
    search.run()
    assert search.table() == uninterrupted


def assert_paused_in_a_fold(search: Search) -> None:
    (trial,) = (t for t in search.record()["trials"] if t["state"] == "running")
    fold = search.folder / "studies" / "toy" / f"trial-{trial['number']:04d}"
    paused = fold / f"fold-{len(trial['folds'])}" / "last.safetensors"
    assert 0 < len(history(paused)) <= LONG["schedule__epochs"]

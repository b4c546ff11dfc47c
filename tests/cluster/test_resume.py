"""kill -9 of anything at any moment: the same command continues, and the study is the same."""

import time
from pathlib import Path

import pytest

from hsearch.training.checkpoint import read_notes
from tests.cluster.searches import (
    LIMIT_SECONDS,
    Search,
    is_alive,
    kill,
    processes_of,
    wait_until,
)

OPTIONS = ("--trials=6", "--groups=1", "--tracking-uri=none")
LONG = ("--trials=1", "--groups=1", "--tracking-uri=none")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, toy_store):
    search = Search(
        tmp_path_factory.mktemp("uninterrupted"),
        toy_store,
        *OPTIONS,
        schedule__iterations_per_epoch=12,
    )
    search.run()
    return search.table()


def test_after_the_loss_of_driver_or_raylet_the_same_command_continues(
    tmp_path, toy_store, uninterrupted
):
    search = Search(tmp_path, toy_store, *OPTIONS, schedule__iterations_per_epoch=12)
    # Without its raylet a search may even end well, if nothing new had to be started.
    for moment, killed in (("trial 0  fold 1", ""), ("trial 0  fold 3", "raylet/raylet")):
        with search.started() as driver:
            search.wait_for(moment, driver)
            search.processes = processes_of(driver.pid)
            kill(processes_of(driver.pid, killed)[0] if killed else driver.pid)
            driver.wait(LIMIT_SECONDS)
        wait_until(lambda: not any(map(is_alive, search.processes)), "Ray ends with its driver")
    search.run()
    assert search.table() == uninterrupted


def test_a_killed_worker_or_group_is_replaced_while_the_search_goes_on(
    tmp_path, toy_store, uninterrupted
):
    search = Search(tmp_path, toy_store, *OPTIONS, schedule__iterations_per_epoch=12)
    with search.started() as driver:
        for moment, name in (
            ("trial 0  fold 1", "RayTrainWorker"),
            ("trial 1  fold 0", "TrainController"),
        ):
            search.wait_for(moment, driver)
            kill(processes_of(driver.pid, name)[0])
        driver.wait(LIMIT_SECONDS)
    assert driver.returncode == 0, search.printed()
    assert search.table() == uninterrupted


def test_a_running_fold_continues_from_its_last_epoch(tmp_path, toy_store):
    search = Search(
        tmp_path, toy_store, *LONG, schedule__epochs=8, schedule__iterations_per_epoch=40
    )
    last = tmp_path / "studies" / "toy" / "trial-0000" / "fold-0" / "last.safetensors"
    with search.started() as driver:
        wait_until(lambda: last.exists() and len(history(last)) >= 4, "epoch 3")
        kill(driver.pid)
        driver.wait()
    time.sleep(2)
    before = history(last)
    assert len(before) < 9
    search.run()
    result = search.record()["trials"][0]["folds"]["0"]
    assert result["history"][: len(before)] == before  # with the very seconds that they took


def test_a_second_driver_is_refused_and_told_who_the_first_is(tmp_path, toy_store):
    search, second = (Search(tmp_path, toy_store, *LONG) for _ in range(2))
    with search.started() as driver:
        wait_until(lambda: (tmp_path / "hsearch.db").exists(), "the study")
        search.wait_for("1 node", driver)
        printed = second.run(exit_code=2)
        assert str(driver.pid) in printed
        assert driver.poll() is None


def history(checkpoint: Path) -> list[dict[str, object]]:
    records: list[dict[str, object]] = read_notes(checkpoint)["history"]
    return records

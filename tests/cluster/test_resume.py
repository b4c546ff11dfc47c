"""kill -9 of anything at any moment: the same command continues, and the study is the same."""

from pathlib import Path

import pytest

from hsearch.data.store import Store
from hsearch.training.checkpoint import read_notes
from tests.cluster.searches import (
    LIMIT_SECONDS,
    Search,
    is_alive,
    kill,
    processes_of,
    wait_until,
)

OPTIONS = ("--trials=3", "--groups=1", "--tracking-uri=none")


def new_search(folder: Path, store: Store) -> Search:
    return Search(folder, store, *OPTIONS, schedule__epochs=4, schedule__iterations_per_epoch=12)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, toy_store):
    search = new_search(tmp_path_factory.mktemp("uninterrupted"), toy_store)
    search.run()
    return search.table()


def test_after_the_loss_of_driver_or_raylet_the_same_command_continues(
    tmp_path, toy_store, uninterrupted
):
    search = new_search(tmp_path, toy_store)
    last = tmp_path / "studies" / "toy" / "trial-0000" / "fold-1" / "last.safetensors"
    with search.started() as driver:
        wait_until(lambda: last.exists() and len(history(last)) >= 2, "epoch 1 of fold 1")
        search.processes = processes_of(driver.pid)
        for pid in (*processes_of(driver.pid, "RayTrainWorker"), driver.pid):
            kill(pid)  # a worker would go on for a while without its driver
        driver.wait()
    wait_until(lambda: not any(map(is_alive, search.processes)), "Ray ends with its driver")
    before = history(last)
    # Without its raylet a search may even end well, if nothing new had to be started.
    with search.started() as driver:
        search.wait_for("trial 0  fold 3", driver)
        search.processes = processes_of(driver.pid)
        kill(processes_of(driver.pid, "raylet/raylet")[0])
        driver.wait(LIMIT_SECONDS)
    wait_until(lambda: not any(map(is_alive, search.processes)), "Ray ends with its driver")
    search.run()
    assert search.table() == uninterrupted
    result = search.record()["trials"][0]["folds"]["1"]
    assert 2 <= len(before) < 5
    assert result["history"][: len(before)] == before  # with the very seconds that they took


def test_a_killed_worker_or_group_is_replaced_while_the_search_goes_on(
    tmp_path, toy_store, uninterrupted
):
    search, second = (new_search(tmp_path, toy_store) for _ in range(2))
    with search.started() as driver:
        search.wait_for("trial 0  fold 1", driver)
        kill(processes_of(driver.pid, "RayTrainWorker")[0])
        refusal = second.run(exit_code=2)
        assert str(driver.pid) in refusal, "a second driver is told who the first is"
        search.wait_for("trial 1  fold 0", driver)
        kill(processes_of(driver.pid, "TrainController")[0])
        driver.wait(LIMIT_SECONDS)
    assert driver.returncode == 0, search.printed()
    assert search.table() == uninterrupted


def history(checkpoint: Path) -> list[dict[str, object]]:
    records: list[dict[str, object]] = read_notes(checkpoint)["history"]
    return records

"""A search whose user leaves: submitted as a Ray job, watched and stopped from elsewhere."""

from pathlib import Path

import pytest

from tests.cluster.head import running_head
from tests.cluster.searches import LIMIT_SECONDS, Command, Search, history


@pytest.fixture
def elsewhere(tmp_path_factory):
    """Runs a verb on the study from another folder."""
    folder = tmp_path_factory.mktemp("elsewhere")

    def command(search: Search, verb: str) -> Command:
        return Command(folder, verb, "toy", "--storage", str(search.folder / "hsearch.db"))

    return command


def test_a_detached_search_is_watched_stopped_and_continued(
    tmp_path, toy_store, elsewhere, monkeypatch
):
    options = ("--trials=1", "--groups=1", "--tracking-uri=none", "--detach")
    search = Search(tmp_path, toy_store, *options)
    search.breakpoint.set(fold=1, epoch=2)
    with running_head(1, search.breakpoint.environment) as head:
        for name, value in head.environment.items():
            monkeypatch.setenv(name, value)
        printed = search.run(f"--address={head.dashboard}")
        assert "hsearch stop toy" in printed
        job = next(word for word in printed.split() if word.startswith("hsearch-toy-")).strip(";")
        assert f"Ray job {job} on " in search.record()["driver"]
        assert "is in the hands of Ray job" in search.run(f"--address={head.address}", exit_code=2)

        watcher = elsewhere(search, "attach")
        with watcher.started() as attached:
            watcher.wait_for("Driven by Ray job", attached)
            watcher.wait_until(lambda: search.breakpoint.waiting(), "epoch 1 of fold 1", attached)
            assert "Stopped toy: the record keeps" in elsewhere(search, "stop").run()
            attached.wait(LIMIT_SECONDS)
        assert attached.returncode == 0, watcher.printed()
        assert "pauses after its epoch" in watcher.printed()
        assert "Stopped from " in watcher.printed()
        (trial,) = search.record()["trials"]
        assert trial["state"] == "running"
        assert list(trial["folds"]) == ["0"]
        assert len(history(last_of(search, fold=1))) == 2

        search.breakpoint.clear()
        assert "Nobody drives toy" in elsewhere(search, "stop").run()
        search.run(f"--address={head.dashboard}")
        assert "Best: trial" in elsewhere(search, "attach").run()
    again = Command(tmp_path, "train", "--like=toy/0", "--fold=1").run()
    assert "exactly the recorded one" in again, "a training that was never interrupted"


def last_of(search: Search, fold: int) -> Path:
    """The checkpoint of a fold's last epoch."""
    folder = search.folder / "studies" / "toy" / "trial-0000"
    return folder / f"fold-{fold}" / "last.safetensors"

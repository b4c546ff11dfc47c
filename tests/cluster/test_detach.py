"""A search whose user leaves: submitted as a Ray job, watched and stopped from elsewhere."""

from pathlib import Path

import pytest

from tests.cluster.head import running_head
from tests.cluster.searches import LIMIT_SECONDS, Command, Search, history, wait_until

EPOCHS = 10


@pytest.fixture
def elsewhere(tmp_path_factory):
    """Runs a verb on the study from another folder."""
    folder = tmp_path_factory.mktemp("elsewhere")

    def command(search: Search, verb: str) -> Command:
        return Command(folder, verb, "toy", "--storage", str(search.folder / "hsearch.db"))

    return command


@pytest.mark.timeout(1200)
def test_a_detached_search_is_watched_stopped_and_continued(
    tmp_path, toy_store, elsewhere, monkeypatch
):
    # It is still at work when a request to stop has reached it.
    search = Search(
        tmp_path,
        toy_store,
        *("--trials=1", "--groups=1", "--tracking-uri=none", "--detach"),
        schedule__epochs=EPOCHS,
        schedule__iterations_per_epoch=20,
        schedule__patience=EPOCHS,
    )
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
            watcher.wait_for("Driven by Ray job", attached)
            wait_until(last_of(search).exists, "a finished epoch")
            assert "Stopped toy: the record keeps" in elsewhere(search, "stop").run()
            attached.wait(LIMIT_SECONDS)
        assert attached.returncode == 0, watcher.printed()
        assert "pauses after its epoch" in watcher.printed()
        assert "Stopped from " in watcher.printed()
        (trial,) = search.record()["trials"]
        assert trial["state"] == "running"
        paused = len(trial["folds"])
        assert 0 < len(history(last_of(search, paused))) <= EPOCHS

        assert "Nobody drives toy" in elsewhere(search, "stop").run()
        search.run(f"--address={head.dashboard}")
        assert "Best: trial" in elsewhere(search, "attach").run()
    again = Command(tmp_path, "train", "--like=toy/0", f"--fold={paused}").run()
    assert "exactly the recorded one" in again, "a training that was never interrupted"


def last_of(search: Search, fold: int = 0) -> Path:
    """The checkpoint of a fold's last epoch."""
    folder = search.folder / "studies" / "toy" / "trial-0000"
    return folder / f"fold-{fold}" / "last.safetensors"

"""What a training leaves on the disk: no more than somebody needs."""

from pathlib import Path

import pytest

from hsearch.training.folder import RunFolder
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.score import embed_run


@pytest.fixture
def data(tmp_path, monkeypatch):
    """An empty data folder."""
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def cached(data: Path) -> dict[str, int]:
    """How many files there are of each kind of cache."""
    found = [path.suffix for path in data.rglob("*") if path.is_file()]
    return {suffix: found.count(suffix) for suffix in set(found)}


def test_features_take_the_place_of_the_images_that_they_were_made_from(data, toy_job, tmp_path):
    job = toy_job("proxy_anchor", model__regime="frozen", image__cached_views=2)
    first = train_locally(job, Report(), tmp_path / "one")
    assert cached(data) == {".features": 3}, "the evaluated view and two random ones"
    assert train_locally(job, Report(), tmp_path / "other").history[-1].loss == (
        first.history[-1].loss
    )
    embed_run(tmp_path / "one", "test")
    assert cached(data) == {".features": 4}


def test_images_that_are_trained_are_decoded_once_whatever_is_scored_of_them(
    data, toy_job, tmp_path
):
    train_locally(toy_job("proxy_anchor"), Report(), tmp_path / "run")
    assert cached(data) == {".pixels": 1}
    for part in ("train", "validation"):
        embed_run(tmp_path / "run", part)
    assert cached(data) == {".pixels": 1}
    embed_run(tmp_path / "run", "test")
    assert cached(data) == {".pixels": 2}, "which ten runs of four networks are tested on"


def test_the_state_of_an_optimiser_goes_only_when_training_has_ended(toy_job, tmp_path):
    folder = RunFolder(tmp_path / "run")

    class Stop(Report):
        def epoch(self, record):
            if record.epoch == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_locally(toy_job(), Stop(), folder.path)
    folder.remove_state()
    assert folder.last.exists()
    train_locally(toy_job(), Report(), folder.path)
    folder.remove_state()
    assert not folder.last.exists()
    assert folder.best.exists()
    again = train_locally(toy_job(), Report(), folder.path)
    assert again == folder.finished()
    assert not folder.last.exists()

"""Runs at an address equal runs in a folder, whoever is cut off, killed or goes on."""

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from hsearch.addresses import Address, read_folder
from hsearch.data.objects import Objects
from hsearch.errors import DatasetError
from hsearch.results import FoldResult
from hsearch.spec import FoldJob
from hsearch.training.folder import RunFolder
from hsearch.training.kept import local_folds, local_runs, train_kept
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report, train_fold
from tests.training.ranks import on_ranks
from tests.training.runs import Interrupt, StoppedError


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))


@pytest.fixture
def address(s3_server, tmp_path) -> Address:
    return read_folder(s3_server.uri(f"bucket/{tmp_path.name}/fold-0"))


@pytest.fixture
def job(toy_job) -> FoldJob:
    made: FoldJob = toy_job("hpl", method__update_period=3, schedule__epochs=3)
    return made


class Recorder(Report):
    def __init__(self) -> None:
        self.epochs: list[int] = []

    def epoch(self, record):
        self.epochs.append(record.epoch)


def outcome(folder: Path) -> tuple[Any, ...]:
    """What two runs must share: the weights of the best network, every loss and metric."""
    result = FoldResult.from_dict(json.loads(RunFolder(folder).result.read_text()))
    history = [(r.epoch, r.loss, r.validation) for r in result.history]
    tensors = load_file(RunFolder(folder).best)
    return result.score, history, {key: t.numpy().tobytes() for key, t in tensors.items()}


def assert_kept(job: FoldJob, address: Address, tmp_path: Path) -> None:
    """What is at the address, once training has ended, is what a folder would have."""
    train_locally(job, Report(), tmp_path / "whole")
    with local_runs([address]) as (folder,):
        assert outcome(folder) == outcome(tmp_path / "whole")
        result = RunFolder(folder).finished()
    assert result is not None
    best = f"best-{result.best_epoch:04d}.safetensors"
    assert Objects(address).names() == [best, "job.json", "result.json"]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_an_epoch_is_reported_when_its_files_are_there_and_the_older_gone(job, address, tmp_path):
    seen = []

    class Look(Report):
        def epoch(self, record):
            names = [name for name in Objects(address).names() if name.startswith("last")]
            seen.append((record.epoch, names))

    train_kept(job, Look(), address, train_fold)
    assert seen == [(epoch, [f"last-{epoch:04d}.safetensors"]) for epoch in range(4)]
    assert_kept(job, address, tmp_path)
    again = Recorder()
    train_kept(job, again, address, train_fold)
    assert again.epochs == []


def test_another_machine_goes_on_bit_for_bit_from_the_newest_whole_state(job, address, tmp_path):
    with pytest.raises(StoppedError):
        train_kept(job, Interrupt(2), address, train_fold)
    objects = Objects(address)
    content = objects.read("last-0002.safetensors") or b""
    objects.put("last-0003.safetensors", content[: len(content) // 2])
    objects.put("result.json", b"{")
    recorder = Recorder()
    train_kept(job, recorder, address, train_fold)
    assert recorder.epochs == [3]
    assert_kept(job, address, tmp_path)


def test_a_state_without_its_best_network_is_not_used(toy_job, address, tmp_path):
    job = toy_job("hpl", method__update_period=3, schedule__epochs=4, schedule__eval_every=2)
    with pytest.raises(StoppedError):
        train_kept(job, Interrupt(3), address, train_fold)  # whose best epoch is an earlier one
    objects = Objects(address)
    best = next(name for name in objects.names() if name.startswith("best"))
    objects.put(best, b"broken")
    old = objects.read("last-0003.safetensors")
    kept = []

    class Look(Recorder):
        def epoch(self, record):
            super().epoch(record)
            kept.append(Objects(address).read("last-0003.safetensors"))

    recorder = Look()
    train_kept(job, recorder, address, train_fold)
    assert recorder.epochs == [0, 1, 2, 3, 4]
    assert kept[3] != old, "a state of this training, which took other seconds"
    assert_kept(job, address, tmp_path)


def test_the_network_that_is_kept_is_of_the_training_that_is_recorded(job, address, tmp_path):
    """Another one, which a machine with other bits has left half-way, has the same names."""
    other = job.model_copy(update={"seed": job.seed + 1})
    train_locally(other, Report(), tmp_path / "other")
    for epoch in range(4):
        name = f"best-{epoch:04d}.safetensors"
        Objects(address).put(name, RunFolder(tmp_path / "other").best)
    train_kept(job, Report(), address, train_fold)
    assert_kept(job, address, tmp_path)


@pytest.mark.parametrize("meanwhile", [Report(), Interrupt(2)], ids=["finishes", "is killed"])
def test_a_machine_that_was_cut_off_spoils_nothing(job, address, tmp_path, meanwhile):
    """It comes back after its epoch 1, when another has taken its place."""

    class CutOff(Recorder):
        def epoch(self, record):
            super().epoch(record)
            if record.epoch == 1:
                with suppress(StoppedError):
                    train_kept(job, meanwhile, address, train_fold)

    late = CutOff()
    train_kept(job, late, address, train_fold)
    assert late.epochs == [0, 1, 2, 3]
    assert_kept(job, address, tmp_path)


def go_on(job: dict[str, object], uri: str) -> list[float]:
    """On every rank; returns the losses."""
    result = train_kept(FoldJob.from_dict(job), Report(), read_folder(uri), train_fold)
    return [record.loss or 0.0 for record in result.history]


def test_every_rank_fetches_the_state_for_itself(job, address, s3_server, tmp_path):
    with pytest.raises(StoppedError):
        train_kept(job, Interrupt(2), address, train_fold)
    path = f"{address.path}/last-0002.safetensors"
    Objects(address).fetch("last-0002.safetensors", tmp_path / "once")
    once = s3_server.requests("GET", path)
    losses = on_ranks(go_on, job.to_dict(), str(address))
    assert s3_server.requests("GET", path) == (1 + 2) * once
    whole = train_locally(job, Report(), tmp_path / "whole")
    assert losses[:3] == [record.loss or 0.0 for record in whole.history[:3]]
    assert losses[3] == pytest.approx(whole.history[3].loss, rel=1e-3)


def test_another_job_or_no_run_is_refused_in_a_sentence(job, address):
    with pytest.raises(StoppedError):
        train_kept(job, Interrupt(0), address, train_fold)
    other = job.model_copy(update={"seed": 7})
    with pytest.raises(DatasetError, match=r"fold-0\?.* holds a run with other settings \(seed\)"):
        train_kept(other, Report(), address, train_fold)
    sentence = r"none\?.* is not where a search keeps a run: no job\.json"
    with pytest.raises(DatasetError, match=sentence), local_runs([address / "none"]):
        pass


def test_what_is_written_beside_fetched_runs_is_kept(job, address):
    run = read_folder(str(address).replace("/fold-0", ""))
    train_kept(job, Report(), address, train_fold)
    with local_folds(run, [0]) as folder:
        assert RunFolder(folder / "fold-0").best.exists()
        (folder / "pictures").mkdir()
        (folder / "pictures" / "a.png").write_bytes(b"picture")
    assert Objects(run).read("pictures/a.png") == b"picture"
    assert "last" not in "".join(Objects(run).names())

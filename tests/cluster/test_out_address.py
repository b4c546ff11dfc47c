"""A search whose files are at an address: killed, resumed, reproduced and evaluated from there."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hsearch.addresses import Address, read_folder
from hsearch.cli.main import main
from hsearch.data.objects import Objects
from hsearch.search.reproduction import load_reproduction
from hsearch.training.checkpoint import read_notes
from tests.cluster.searches import (
    Command,
    Search,
    is_alive,
    kill,
    processes_of,
    scores,
    wait_until,
)
from tests.data.s3_server import running_s3

OPTIONS = ("--trials=2", "--groups=1", "--tracking-uri=none")
SCHEDULE: dict[str, Any] = {"schedule__epochs": 6, "schedule__iterations_per_epoch": 12}


@pytest.fixture
def shared(tmp_path, toy_store, monkeypatch):
    """The address that HSEARCH_SHARED holds, with the toy data."""
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with running_s3(tmp_path) as s3:
        address = read_folder(s3.uri("bucket/shared"))
        monkeypatch.setenv("HSEARCH_SHARED", str(address))
        Objects(address / "data").put("toy.arrow", toy_store.path)
        yield address


def test_a_search_at_an_address_equals_one_in_a_folder(tmp_path, toy_store, shared):
    local = Search(tmp_path / "local", toy_store, *OPTIONS, "--out=here", **SCHEDULE)
    local.folder.mkdir()
    local.run()
    search = Search(tmp_path, "toy", *OPTIONS, **SCHEDULE)
    study = Objects(shared / "studies" / "toy")
    first = "trial-0000/fold-1/last-0001.safetensors"
    with search.started() as driver:
        wait_until(lambda: first in study.names() or driver.poll() is not None, "epoch 1 of fold 1")
        assert driver.poll() is None, search.printed()
        search.processes = processes_of(driver.pid)
        for pid in (*processes_of(driver.pid, "RayTrainWorker"), driver.pid):
            kill(pid)  # a worker would go on for a while without its driver
        driver.wait()
    wait_until(lambda: not any(map(is_alive, search.processes)), "Ray ends with its driver")
    last = [name for name in study.names() if "fold-1/last-" in name][-1]
    assert study.fetch(last, tmp_path / "last")
    before = read_notes(tmp_path / "last")["history"]
    search.run()
    assert search.table() == local.table()
    trials = search.record()["trials"]
    assert [trial["job"]["data"] for trial in trials] == ["toy", "toy"]
    result = trials[0]["folds"]["1"]
    assert result["history"][: len(before)] == before  # with the very seconds that they took
    assert_only_the_best_is_kept(search, study)
    assert not (tmp_path / "studies").exists()
    scratch = [path.name for path in Path(tempfile.gettempdir()).glob("hsearch-run-*")]
    assert not [name for name in scratch if int(name.split("-")[3]) in search.processes]
    assert_reproduced_and_evaluated(tmp_path, shared)


def assert_only_the_best_is_kept(search: Search, study: Objects) -> None:
    complete = [trial for trial in search.record()["trials"] if trial["state"] == "complete"]
    number = max(complete, key=lambda trial: sum(scores(trial)))["number"]
    folders = {name.partition("/")[0] for name in study.names()}
    assert folders == {".study", f"trial-{number:04d}"}
    kept = Objects(study.address / f"trial-{number:04d}" / "fold-3").names()
    assert [name.partition("-")[0] for name in kept] == ["best", "job.json", "result.json"]


def assert_reproduced_and_evaluated(folder: Path, shared: Address) -> None:
    Command(folder, "reproduce", "toy", "--runs=1").run()
    record = load_reproduction("toy", "cross-validated", str(folder / "hsearch.db"))
    assert record is not None
    tested = record.runs[0].tested
    assert tested is not None
    run = shared / "studies" / "toy" / "reproduce-cross-validated" / "run-000"
    names = Objects(run).names()
    assert {"queries.npz", "pictures/gallery.png"} <= set(names)
    logged = [path.name for path in (folder / "mlruns").rglob("*") if path.is_file()]
    assert logged.count("best.safetensors") == logged.count("job.json") == 4
    assert "gallery.png" in logged
    result = CliRunner().invoke(main, ["evaluate", str(run / "fold-0"), "--on", "test", "--json"])
    assert result.exit_code == 0, result.output
    page = json.loads(result.stdout)
    assert page["runs"][0]["run"] == str(run / "fold-0")
    assert page["metrics"]["map_at_r"] == pytest.approx(tested.models[0]["map_at_r"])

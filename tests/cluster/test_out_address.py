"""A search whose files are at an address: killed, resumed, reproduced and evaluated from there."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hsearch.addresses import read_folder
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

OPTIONS = ("--trials=2", "--groups=1", "--tracking-uri=none")
SCHEDULE: dict[str, Any] = {"schedule__epochs": 3}


@pytest.fixture(scope="module")
def shared(tmp_path_factory, toy_store, s3_server):
    """The address that HSEARCH_SHARED holds, with the toy data."""
    address = read_folder(s3_server.uri("bucket/shared"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HSEARCH_DATA", str(tmp_path_factory.mktemp("data")))
        patch.setenv("HSEARCH_SHARED", str(address))
        Objects(address / "data").put("toy.arrow", toy_store.path)
        yield address


@pytest.fixture(scope="module")
def resumed(tmp_path_factory, shared):
    """A finished search that was killed in fold 1, and the history that it had then."""
    search = Search(tmp_path_factory.mktemp("resumed"), "toy", *OPTIONS, **SCHEDULE)
    study = Objects(shared / "studies" / "toy")

    def states() -> list[str]:
        return [name for name in study.names() if "trial-0000/fold-1/last-" in name]

    search.breakpoint.set(fold=1, epoch=2, step=1)
    with search.started() as driver:
        search.wait_for_breakpoint(driver)
        search.processes = processes_of(driver.pid)
        for pid in (*processes_of(driver.pid, "RayTrainWorker"), driver.pid):
            kill(pid)  # a worker would go on for a while without its driver
        driver.wait()
    (state,) = states()
    assert study.fetch(state, search.folder / "last")
    search.breakpoint.clear()
    search.run()
    wait_until(lambda: not any(map(is_alive, search.processes)), "Ray ends with its driver")
    return search, read_notes(search.folder / "last")["history"]


def test_a_killed_fold_goes_on_from_its_last_epoch(resumed):
    search, before = resumed
    assert len(before) == 2
    result = search.record()["trials"][0]["folds"]["1"]
    assert result["history"][: len(before)] == before  # with the very seconds that they took
    in_a_folder = Command(search.folder, "train", "--like=toy/0", "--fold=1").run()
    assert "exactly the recorded one" in in_a_folder


def test_only_the_best_network_is_kept_and_nothing_on_this_machine(resumed, shared):
    search, _ = resumed
    complete = [trial for trial in search.record()["trials"] if trial["state"] == "complete"]
    best = f"trial-{max(complete, key=lambda trial: sum(scores(trial)))['number']:04d}"
    study = shared / "studies" / "toy"
    assert {trial["job"]["data"] for trial in search.record()["trials"]} == {"toy"}
    assert {name.partition("/")[0] for name in Objects(study).names()} == {".study", best}
    kept = Objects(study / best / "fold-3").names()
    assert [name.partition("-")[0] for name in kept] == ["best", "job.json", "result.json"]
    assert not (search.folder / "studies").exists()
    scratch = [path.name for path in Path(tempfile.gettempdir()).glob("hsearch-run-*")]
    assert not [name for name in scratch if int(name.split("-")[3]) in search.processes]


def test_it_is_reproduced_logged_and_evaluated_from_there(resumed, shared):
    folder = resumed[0].folder
    Command(folder, "reproduce", "toy", "--runs=1").run()
    record = load_reproduction("toy", "cross-validated", str(folder / "hsearch.db"))
    assert record is not None
    tested = record.runs[0].tested
    assert tested is not None
    run = shared / "studies" / "toy" / "reproduce-cross-validated" / "run-000"
    assert {"queries.npz", "pictures/gallery.png"} <= set(Objects(run).names())
    logged = [path.name for path in (folder / "mlruns").rglob("*") if path.is_file()]
    assert logged.count("best.safetensors") == logged.count("job.json") == 4
    assert "gallery.png" in logged
    result = CliRunner().invoke(main, ["evaluate", str(run / "fold-0"), "--on", "test", "--json"])
    assert result.exit_code == 0, result.output
    page = json.loads(result.stdout)
    assert page["scored"]["runs"][0]["run"] == str(run / "fold-0")
    assert page["metrics"]["map_at_r"] == pytest.approx(tested.models[0]["map_at_r"])

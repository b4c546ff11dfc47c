"""`hsearch clean`: what takes space is told truly, and exactly what is named goes."""

import json
import mmap
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import hsearch.search.lease as lease_module
from hsearch.cli.main import main
from hsearch.scratch import make_scratch
from hsearch.search.lease import Lease
from hsearch.search.reproduction import Reproduction, load_reproduction
from hsearch.search.study import Study, study_names
from hsearch.tracking.writer import open_client
from tests.search.made_reproduction import finish_run, made_plan, made_spec_on
from tests.search.made_study import SPACE, search

NETWORK = 1000


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A working folder with a data folder, and nothing of hsearch in either."""
    monkeypatch.chdir(tmp_path)
    for name in ("HSEARCH_STORAGE", "HSEARCH_SHARED", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(lease_module, "SETTLE_SECONDS", 0.05)
    return tmp_path  # type: ignore[no-any-return]


def write(path: Path, num_bytes: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * num_bytes)
    return path


def put_caches(home: Path) -> None:
    write(home / "data" / "pixels" / "toy-32-abc.pixels", 500)
    write(home / "data" / "features" / "toy-abc-view0.features", 300)
    write(home / "data" / "features" / "toy-abc-view1.parts" / "000000.part", 70)
    write(home / "data" / "remote" / "toy-1234.arrow", 40)
    write(home / "data" / "weights" / "0123" / "resnet.safetensors", 7)


@pytest.fixture(scope="module")
def made(tmp_path_factory, toy_store) -> Path:
    """A study of three trials, of which the last is unfinished, with two runs, the last too."""
    folder = tmp_path_factory.mktemp("made")
    storage = str(folder / "hsearch.db")
    with closing(Study.open("s", storage, made_spec_on(toy_store), SPACE)) as opened:
        opened.take_over()
        record = search(opened, 2)
        assert record.best is not None
        opened.propose()
        opened.set_attribute("id", "0123")
        put_study(folder / "studies" / "s", "0123", record.best.number)
        with closing(Reproduction.open(made_plan(record), storage)) as reproduction:
            reproduction.begin(2)
            finish_run(reproduction, 0)
    return folder  # type: ignore[no-any-return]


@pytest.fixture
def study(home, made):
    """The made study in the working folder."""
    shutil.copytree(made, home, dirs_exist_ok=True)
    with closing(Study.load("s", "hsearch.db")) as opened:
        yield opened


def put_study(folder: Path, identity: str, best: int) -> None:
    write(folder / ".study", 0).write_text(identity)
    for trial in (best, 2):
        write(folder / f"trial-{trial:04d}" / "fold-0" / "best.safetensors", NETWORK)
        write(folder / f"trial-{trial:04d}" / "fold-0" / "result.json", 20)
    write(folder / "trial-0002" / "fold-1" / "last.safetensors", 3 * NETWORK)
    for run in range(2):
        place = folder / "reproduce-cross-validated" / f"run-{run:03d}"
        write(place / "fold-0" / "best.safetensors", NETWORK)
        write(place / "queries.npz", 50)


def run(*arguments: str, answer: str | None = None):
    return CliRunner().invoke(main, ["clean", *arguments], input=answer)


def done(*arguments: str, answer: str | None = None) -> str:
    result = run(*arguments, answer=answer)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def found() -> dict[str, int]:
    """What is told to programs: the size of every item."""
    return {item["name"]: item["bytes"] for item in json.loads(done("--json"))["items"]}


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_nothing_is_said_where_nothing_is(home):
    assert done().startswith("Nothing of hsearch is here")
    assert done("caches", "studies", "runs", "pixels", "mlflow", "--yes") == (
        "Nothing was removed.\n"
    )
    assert not list(home.iterdir()), "looking leaves nothing behind"


def test_everything_is_told_with_its_size_use_and_loss(home, study):
    put_caches(home)
    write(home / "runs" / "toy-hpl-fold0" / "job.json", 10)
    write(home / "runs" / "toy-hpl-fold0" / "best.safetensors", 80)
    write(home / "runs" / "other" / "notes.txt", 5)
    write(home / "studies" / "mine" / "notes.txt", 5)
    write(home / "data" / "glyphs.arrow", 9)
    sizes = found()
    assert sizes == {
        **{"pixels": 500, "features": 370, "copies": 40, "weights": 7},
        "data:glyphs": 9,
        "study:s": sum(p.stat().st_size for p in (home / "studies/s").rglob("*") if p.is_file()),
        "run:toy-hpl-fold0": 90,
    }, "what is not of hsearch is not counted"
    told = json.loads(done("--json"))
    record = sum(path.stat().st_size for path in home.glob("hsearch.db*"))
    assert told["records"] == {"bytes": record, "studies": ["s"]}
    assert told["bytes"] == sum(sizes.values()) + record
    shown = done()
    assert "decoded images, shared by all trainings" in shown
    assert "networks of its best trial and of 2 reproductions" in shown
    assert "`hsearch clean caches` would free 0.0 MB" in shown
    (row,) = [item for item in told["items"] if item["name"] == "study:s"]
    assert row["frees_bytes"] == 2 * NETWORK, "of the best trial and of the complete run"


def test_caches_go_and_nothing_else(home, study):
    put_caches(home)
    write(home / "data" / "glyphs.arrow", 9)
    before = files(home / "studies")
    assert "Removed pixels, features, copies, weights: 0.0 MB freed." in done("caches", "--yes")
    assert files(home / "data") == ["glyphs.arrow"]
    assert files(home / "studies") == before
    assert study_names("hsearch.db") == ["s"]


def test_only_what_is_named_goes_and_twice_is_once(home):
    put_caches(home)
    told = json.loads(done("pixels", "features", "pixels", "--yes", "--json"))
    assert told == {"removed": ["pixels", "features"], "freed_bytes": 870, "left": []}
    assert files(home / "data") == ["remote/toy-1234.arrow", "weights/0123/resnet.safetensors"]


def test_a_person_is_asked_first(home):
    put_caches(home)
    before = files(home)
    assert "Remove it, 0.0 MB? [y/N]: n\nNothing was removed." in done("pixels", answer="n\n")
    assert "and free 0.0 MB; nothing was removed." in done("pixels", "--dry-run")
    told = json.loads(done("pixels", "features", "--dry-run", "--json"))
    assert told == {"would_remove": ["pixels", "features"], "would_free_bytes": 870, "left": []}
    for arguments, sentence in [
        (["pixels"], "a person is asked, but nobody answers; add --yes."),
        (["pixels", "--json"], "Nobody is asked with --json; add --yes or --dry-run."),
    ]:
        result = run(*arguments)
        assert result.exit_code == 2
        assert sentence in result.stderr
    assert files(home) == before
    done("pixels", answer="y\n")
    assert not list((home / "data" / "pixels").iterdir())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("pixel", "There is nothing called 'pixel' to remove; valid names: caches, "),
        ("pixel", "Did you mean 'pixels'?"),
        ("study:z", "Did you mean 'study:s'?"),
        ("record:z", "Did you mean 'record:s'?"),
        ("study", "one is named: study:NAME, but got 'study'."),
        ("records", "one is named: record:NAME, but got 'records'."),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(study, home, name, sentence):
    put_caches(home)
    before = files(home / "data")
    result = run("pixels", name, "--yes")
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert files(home / "data") == before, "all or nothing"


def test_networks_go_but_record_scores_and_what_may_go_on_stay(study, home):
    best = study.record().best.number
    assert "Removed study:s: 0.0 MB freed." in done("study:s", "--yes")
    assert files(home / "studies" / "s") == [
        ".study",
        "reproduce-cross-validated/run-000/queries.npz",
        "reproduce-cross-validated/run-001/fold-0/best.safetensors",
        "reproduce-cross-validated/run-001/queries.npz",
        f"trial-{best:04d}/fold-0/result.json",
        "trial-0002/fold-0/best.safetensors",
        "trial-0002/fold-0/result.json",
        "trial-0002/fold-1/last.safetensors",
    ]
    assert len(study.record().trials) == 3
    assert load_reproduction("s", "cross-validated", "hsearch.db") is not None


def test_a_record_goes_only_by_its_name_and_with_all_files(study, home, toy_store):
    with closing(Study.open("t", "hsearch.db", made_spec_on(toy_store), SPACE)) as other:
        other.take_over()
        search(other, 1)
    put_study(home / "studies" / "t", "4567", 0)
    done("studies", "--yes")
    assert study_names("hsearch.db") == ["s", "t"]
    told = json.loads(done("record:s", "study:s", "--yes", "--json"))
    assert told["removed"] == ["record:s"], "which has the files as well"
    assert study_names("hsearch.db") == ["t"]
    assert load_reproduction("s", "cross-validated", "hsearch.db") is None
    assert sorted(path.name for path in (home / "studies").iterdir()) == []
    assert "record:NAME" in done()


def test_files_of_a_study_from_another_storage_are_not_taken_for_those_of_the_record(study, home):
    folder = home / "studies" / "s"
    (folder / ".study").write_text("of another storage")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    (row,) = [item for item in json.loads(done("--json"))["items"] if item["name"] == "study:s"]
    assert row["frees_bytes"] == size
    assert "whose record is in another storage" in row["what"]
    done("record:s", "--yes")
    assert folder.is_dir()
    done("study:s", "--yes")
    assert not folder.exists()


@pytest.mark.parametrize("name", ["study:s", "record:s", "pixels"])
def test_what_a_driver_uses_is_refused(study, home, name):
    put_caches(home)
    before = files(home / "studies") + files(home / "data")
    with Lease(study):
        result = run(name, "--yes")
        assert result.exit_code == 2
        assert f"What is in use is not removed, but {name} is used by process " in result.stderr
        assert result.stderr.count("\n") == 1
        told = json.loads(done("studies", "caches", "--yes", "--json"))
        assert told["removed"] == []
        assert {each["name"] for each in told["left"]} == {
            *("study:s", "pixels", "features", "copies", "weights")
        }
        assert "(used by process " in done()
    assert files(home / "studies") + files(home / "data") == before
    done(name, "--yes")


def test_a_driver_that_came_while_a_person_thought_keeps_its_networks(study, home, monkeypatch):
    before, lease = files(home / "studies"), Lease(study)

    def think(question: str) -> bool:
        lease.acquire()
        return True

    monkeypatch.setattr("click.confirm", think)
    result = run("study:s")
    lease.release()
    assert result.exit_code == 2
    assert "study:s is used by process" in result.stderr
    assert files(home / "studies") == before


def test_what_a_process_has_open_is_refused(home):
    put_caches(home)
    path = home / "data" / "pixels" / "toy-32-abc.pixels"
    code = (
        "import mmap, sys\n"
        f"with open({str(path)!r}, 'rb') as file:\n"
        "    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
        "print(mapped[0], flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline()
        result = run("pixels", "--yes")
        assert result.exit_code == 2
        assert f"pixels is used by process {reader.pid};" in result.stderr
        assert path.exists()
        done("features", "--yes")
        reader.communicate()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        done("pixels", "--yes")
    assert not path.exists()


def test_a_network_with_two_names_is_counted_once_and_freed_with_the_last(study, home):
    (home / "mlflow.db").touch()
    network = next((home / "studies").rglob("run-000/fold-0/best.safetensors"))
    linked = home / "mlruns" / "hsearch" / "toy" / "best.safetensors"
    linked.parent.mkdir(parents=True)
    os.link(network, linked)
    told = json.loads(done("--json"))
    sizes = {item["name"]: item for item in told["items"]}
    assert sizes["mlflow"]["bytes"] == NETWORK
    assert sizes["mlflow"]["frees_bytes"] == 0
    assert sizes["study:s"]["frees_bytes"] == NETWORK, "that of the best trial"
    assert told["bytes"] == sizes["study:s"]["bytes"] + told["records"]["bytes"]
    assert told["shared_bytes"] == NETWORK
    assert "0.0 MB are networks of studies that MLflow has too, freed when both go." in done()
    told = json.loads(done("study:s", "--yes", "--json"))
    assert told["freed_bytes"] == NETWORK
    assert not network.exists()
    (row,) = [item for item in json.loads(done("--json"))["items"] if item["name"] == "mlflow"]
    assert row["frees_bytes"] == NETWORK, "the last name of the file"


def test_runs_are_named_one_by_one_or_together(home):
    for name in ("a", "b", "c"):
        write(home / "runs" / name / "job.json", 10)
    done("run:a", "--yes")
    assert sorted(path.name for path in (home / "runs").iterdir()) == ["b", "c"]
    done("runs", "--yes")
    assert list((home / "runs").iterdir()) == []


def test_what_killed_processes_left_is_found(home):
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    mine = make_scratch("ray")
    left = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{dead.pid}-"))
    write(left / "session" / "log", 900)
    assert found() == {"scratch": 900}
    done("scratch", "--yes")
    assert not left.exists()
    assert mine.is_dir()


def test_studies_at_an_address(study, home):
    address = (home / "studies").as_uri()
    local = found()["study:s"]
    assert {
        i["name"]: i["bytes"] for i in json.loads(done("--out", address, "--json"))["items"]
    } == {"study:s": local}
    told = json.loads(done("study:s", "--out", address, "--yes", "--json"))
    assert told["freed_bytes"] == 2 * NETWORK
    assert "trial-0002/fold-1/last.safetensors" in files(home / "studies" / "s")
    done("record:s", "--out", address, "--yes")
    assert not (home / "studies" / "s").exists()


def test_mlflows_files_go_unless_somebody_else_has_runs_there(home):
    client = open_client(f"sqlite:///{home}/mlflow.db")
    place = home / "mlruns" / "hsearch" / "toy"
    made = client.create_run(client.create_experiment("hsearch/toy", place.as_uri()))
    client.log_text(made.info.run_id, "x" * 400, "a.txt")
    own = client.create_experiment("my own", (home / "mlruns" / "own").as_uri())
    assert found() == {"mlflow": (home / "mlflow.db").stat().st_size + 400}
    put_caches(home)
    result = run("caches", "mlflow", "--yes")
    assert result.exit_code == 2
    assert "mlflow.db has runs of others (my own)" in result.stderr
    assert (home / "mlflow.db").exists()
    assert "pixels" in found(), "all or nothing"
    shutil.rmtree(home / "data")
    client.delete_experiment(own)
    kept = write(home / "mlruns" / "0" / "meta.yaml", 50)
    done("mlflow", "--yes")
    assert [path for path in home.rglob("*") if path.is_file()] == [kept], "not of hsearch"
    shutil.rmtree(kept.parent)
    write(home / "mlflow.db", 0)
    done("mlflow", "--yes")
    assert not list(home.iterdir())

"""PostgreSQL and MLflow of a head node: kept for real, killed, healed, ended, used."""

import os
import re
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hsearch.cluster.pgpass import password_for
from hsearch.cluster.postgres import HOST, USER
from hsearch.search.study import Study, study_names
from hsearch.tracking.server import artifact_settings
from hsearch.tracking.writer import open_client
from tests.cluster.searches import Command, is_alive, kill, processes_of
from tests.search.made_study import SPACE, made_spec, outcome, search

OTHERS = "db.example.com:5432:*:somebody:a\\:secret\n"


@pytest.fixture
def folder(monkeypatch) -> Iterator[Path]:
    """A folder that the user of PostgreSQL may enter, with a home in it."""
    with tempfile.TemporaryDirectory(prefix="hsearch-serve-") as name:
        home = Path(name, "home")
        home.mkdir(mode=0o700)
        os.chmod(name, 0o755)
        (home / ".pgpass").write_text(OTHERS)
        (home / ".pgpass").chmod(0o600)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("HSEARCH_SHARED", f"{name}/shared")
        yield Path(name)


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind((HOST, 0))
        other.bind((HOST, 0))
        return one.getsockname()[1], other.getsockname()[1]


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def test_both_are_kept_healed_and_ended_and_their_data_stay(folder, monkeypatch):
    database, tracking = free_ports()
    ports = (f"--postgres-port={database}", f"--mlflow-port={tracking}")
    storage = f"postgresql://{USER}@{HOST}:{database}/hsearch"
    serve = Command(folder, "cluster", "serve", f"--folder={folder}/data", *ports)
    with serve.started() as process:
        serve.wait_for("MLflow answers", process)
        assert (folder / "home/.pgpass").read_text().endswith(OTHERS)
        assert stat.S_IMODE((folder / "home/.pgpass").stat().st_mode) == 0o600
        with closing(Study.open("s", storage, made_spec(), SPACE)) as study:
            expected = outcome(search(study, 2))
        client = open_client(f"http://{HOST}:{tracking}")
        run = client.create_run(client.create_experiment("cars")).info.run_id
        client.log_text(run, "seen by all", "note.txt")

        second = Command(folder, "cluster", "serve", f"--folder={folder}/data", *ports)
        assert "are kept already" in second.run()

        for pid in re.findall(r"started, process (\d+)", serve.printed()):
            kill(int(pid))
        serve.wait_for("PostgreSQL answers", process, times=2)
        serve.wait_for("MLflow answers", process, times=2)
        assert outcome_of(storage) == expected
        client.set_tag(run, "healed", "yes")

        below = processes_of(process.pid)
        process.terminate()
        process.wait(60)
    assert process.returncode == 143
    assert not any(map(is_alive, below))
    assert not is_open(database)
    assert not is_open(tracking)
    assert password_for(HOST, database, USER) not in everything_in(folder, serve.output)

    with socket.create_server((HOST, 0)) as head:
        with_ray = f"--with-ray={HOST}:{head.getsockname()[1]}"
        again = Command(folder, "cluster", "serve", f"--folder={folder}/data", *ports, with_ray)
        with again.started() as process:
            again.wait_for("MLflow answers", process)
            assert outcome_of(storage) == expected
            assert client.get_run(run).data.tags["healed"] == "yes"
            (note,) = (folder / "shared/mlflow").rglob("note.txt")
            assert note.read_text() == "seen by all"
            below = processes_of(process.pid)
            head.close()
            process.wait(90)
        assert process.returncode == 0, again.printed()
        assert "has not answered for 20 s" in again.printed()
        assert not any(map(is_alive, below))


def outcome_of(storage: str) -> list[tuple[object, ...]]:
    assert study_names(storage) == ["s"]
    with closing(Study.load("s", storage)) as study:
        return outcome(study.record())


def everything_in(folder: Path, *files: Path) -> str:
    """What a person may come to see: all that was printed or logged."""
    return "".join(path.read_text() for path in (*folder.glob("data/*.log"), *files))


def test_what_a_killed_keeper_left_is_ended_by_the_next(folder):
    database, tracking = free_ports()
    ports = (f"--postgres-port={database}", f"--mlflow-port={tracking}")
    serve = Command(folder, "cluster", "serve", f"--folder={folder}/data", *ports)
    with serve.started() as process:
        serve.wait_for("MLflow started", process)
        serve.wait_until(
            lambda: len(processes_of(process.pid, "mlflow")) > 1, "MLflow has a child", process
        )
        left = processes_of(process.pid)
        kill(process.pid)
    next_one = Command(folder, "cluster", "serve", f"--folder={folder}/data", *ports)
    with next_one.started() as process:
        next_one.wait_for("PostgreSQL answers", process)
        assert not any(map(is_alive, left))
        process.terminate()
        process.wait(60)
    assert not is_open(database)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:port"])
def test_a_head_without_a_port_is_refused_and_nothing_made(folder, address):
    serve = Command(folder, "cluster", "serve", f"--folder={folder}/data")
    printed = serve.run(f"--with-ray={address}", exit_code=2)
    assert "`--with-ray` must be HOST:PORT" in printed
    assert not (folder / "data").exists()


def test_artifacts_lie_in_the_shared_store_wherever_that_is(tmp_path):
    def place(shared: str | None) -> dict[str, str]:
        return artifact_settings(shared, tmp_path)

    key = "MLFLOW_ARTIFACTS_DESTINATION"
    assert place(None) == {key: tmp_path.as_uri()}
    assert place("/shared/") == {key: "file:///shared/mlflow"}
    assert place("s3://bucket/hsearch") == {key: "s3://bucket/hsearch/mlflow"}
    assert place("s3://bucket/a?scheme=http&endpoint_override=127.0.0.1:9000") == {
        key: "s3://bucket/a/mlflow",
        "MLFLOW_S3_ENDPOINT_URL": "http://127.0.0.1:9000",
    }
    for options in ("endpoint_override=http://m:1", "endpoint_override=http://m:1&scheme=https"):
        assert place(f"s3://bucket/a?{options}")["MLFLOW_S3_ENDPOINT_URL"] == "http://m:1"

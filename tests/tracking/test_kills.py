"""kill -9 of the tracker's process, and of a real MLflow server, at moments nobody chose."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hsearch.tracking.tracker import Tracker
from tests.tracking import driver
from tests.tracking.made_records import MadeStudy, growing
from tests.tracking.test_tracker import track, wait_for


@contextmanager
def started(command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, which ends together with all its children."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_driver_killed_at_any_moment_doubles_nothing_and_prints_nothing(
    uri, database, contents, query, tmp_path
):
    states = growing(5)
    (tmp_path / "states.json").write_text(json.dumps([state.to_dict() for state in states]))
    notes = tmp_path / "notes.json"
    command = [sys.executable, driver.__file__, str(tmp_path / "states.json"), str(notes), uri]
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    for _ in range(2):
        before = notes.read_bytes() if notes.exists() else b""
        with started(command) as process:
            end = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < end:
                if notes.exists() and notes.read_bytes() != before:
                    break
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.4))
            process.kill()
    with started(command) as process:
        assert process.wait(90) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""
    assert max(Counter(row[0] for row in contents()["runs"]).values()) == 1, seed
    assert query("select count(*) from runs") == [(6,)]
    doubled = "select 1 from metrics group by run_uuid, key, step having count(*) > 1"
    assert query(doubled) == []
    ids = {run_id for (run_id,) in query("select run_uuid from runs")}
    assert set(json.loads(notes.read_text()).values()) == ids
    killed = contents()
    track(MadeStudy(states[-1]), uri)  # one that knows no run id finds all and adds nothing
    assert contents() == killed


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def mlflow_server(uri: str, port: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", str(folder)]
    with started(command, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false") as process:
        yield process


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_server_that_comes_late_and_dies_in_the_midst_gets_everything(
    uri, contents, query, tmp_path, no_pause
):
    states = growing(6)
    study = MadeStudy(states[0])
    port = free_port()
    tracker = Tracker(study.record, study.note_run, f"http://127.0.0.1:{port}")
    study.now = states[8]
    tracker.wake()
    wait_for(lambda: "cannot be reached" in str(tracker.behind))
    with mlflow_server(uri, port, tmp_path / "artifacts") as server:
        wait_for(lambda: tracker.behind is None or server.poll() is not None, 300)
        assert server.poll() is None
        for state in states[9:13]:
            study.now = state
            tracker.wake()
            time.sleep(0.05)
        os.killpg(server.pid, signal.SIGKILL)
    assert not answers(port)
    study.now = states[-1]
    tracker.wake()
    wait_for(lambda: "cannot be reached" in str(tracker.behind))
    with mlflow_server(uri, port, tmp_path / "artifacts"):
        assert tracker.close(300), tracker.behind
    assert len(list((tmp_path / "artifacts").rglob("study.json"))) == 1
    over_http = contents()
    assert query("select count(*) from runs") == [(7,)]
    track(MadeStudy(states[-1]), uri)
    assert contents() == over_http

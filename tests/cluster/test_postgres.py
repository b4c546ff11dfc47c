"""Which process is ended as the server that a killed keeper has left."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hsearch.cluster.postgres import Postgres

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]


@contextmanager
def named_in(folder: Path, works_in: Path) -> Iterator[None]:
    """A process that works in one folder, and whose number stands in another's postmaster.pid."""
    with subprocess.Popen(SLEEP, cwd=works_in) as process:
        (folder / "postmaster.pid").write_text(f"{process.pid}\n{folder}\n")
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("own", [True, False])
def test_only_a_server_of_these_data_is_stopped(tmp_path, monkeypatch, own):
    data, stopped = tmp_path / "data", []
    data.mkdir()
    monkeypatch.setattr(Postgres, "_program", lambda self, name: name)
    with named_in(data, works_in=data if own else tmp_path):
        monkeypatch.setattr(subprocess, "run", lambda command, **rest: stopped.append(command))
        Postgres(data, 5433, tmp_path / "log").clear()
    assert stopped == ([["pg_ctl", "stop", "-D", str(data), "-m", "fast"]] if own else [])


@pytest.mark.parametrize("content", ["", "nonsense\n", "999999999\n"])
def test_a_file_that_names_no_process_is_left_to_postgresql(tmp_path, monkeypatch, content):
    (tmp_path / "postmaster.pid").write_text(content)
    monkeypatch.setattr(Postgres, "_program", lambda self, name: pytest.fail(name))
    Postgres(tmp_path, 5433, tmp_path / "log").clear()

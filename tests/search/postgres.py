"""A real PostgreSQL for a test: started on a free port of this machine, ended afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

USER, PASSWORD = "hsearch", "not-a-secret"
DEBIAN = Path("/usr/lib/postgresql")


class Postgres:
    """A server on a free port, which can be ended and started again.

    Attributes:
        url: Of an empty database.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._as_user = folder, _as_someone_else(folder)
        (folder / "password").write_text(PASSWORD, encoding="ascii")
        os.chmod(folder / "password", 0o644)
        access = ["-U", USER, "--pwfile", f"{folder}/password", "-A", "scram-sha-256"]
        _run([_program("initdb"), "-D", f"{folder}/data", *access], self._as_user)
        self._port = _free_port()
        self.url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        settings = ["-h", "127.0.0.1", "-p", str(self._port), "-k", str(self._folder)]
        command = [_program("postgres"), "-D", f"{self._folder}/data", *settings, "-c", "fsync=off"]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._as_user)
        _wait_until_it_answers(_program("pg_isready"), self._port, self._process)

    def end(self) -> None:
        self._process.send_signal(signal.SIGINT)  # its "fast" end, which waits for no client
        self._process.wait(timeout=30)


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Starts a server; fails the test where PostgreSQL is not installed."""
    with tempfile.TemporaryDirectory(prefix="hsearch-postgres-") as folder:
        server = Postgres(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.end()


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yields the URL of an empty database."""
    with running_postgres() as server:
        yield server.url


def _program(name: str) -> str:
    """The program of the newest installed PostgreSQL."""
    found = [str(path) for path in sorted(DEBIAN.glob(f"*/bin/{name}"))]
    path = found[-1] if found else shutil.which(name)
    if path is None:
        pytest.fail(
            f"This test needs PostgreSQL's `{name}`; install the Debian package `postgresql`."
        )
    return path


def _as_someone_else(home: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root, so root runs it as nobody."""
    if os.geteuid() != 0:
        return {}
    nobody = 65534
    os.chown(home, nobody, nobody)
    return {"user": nobody, "group": nobody}


def _run(command: list[str], as_user: dict[str, Any]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **as_user)
    assert done.returncode == 0, done.stderr


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(pg_isready: str, port: int, process: subprocess.Popen[bytes]) -> None:
    command = [pg_isready, "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
    for _ in range(60):
        assert process.poll() is None, "PostgreSQL ended at once"
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
    pytest.fail("PostgreSQL did not answer within a minute")

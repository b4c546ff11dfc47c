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


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yields the URL of an empty database; fails the test where PostgreSQL is not installed."""
    initdb, server = _program("initdb"), _program("postgres")
    with tempfile.TemporaryDirectory(prefix="hsearch-postgres-") as folder:
        home = Path(folder)
        as_user = _as_someone_else(home)
        (home / "password").write_text(PASSWORD, encoding="ascii")
        os.chmod(home / "password", 0o644)
        access = ["-U", USER, "--pwfile", folder + "/password", "-A", "scram-sha-256"]
        _run([initdb, "-D", folder + "/data", *access], as_user)
        port = _free_port()
        settings = ["-h", "127.0.0.1", "-p", str(port), "-k", folder, "-c", "fsync=off"]
        with open(home / "log", "wb") as log:
            process = subprocess.Popen(
                [server, "-D", folder + "/data", *settings],
                stdout=log,
                stderr=log,
                **as_user,
            )
        try:
            _wait_until_it_answers(_program("pg_isready"), port, process)
            yield f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)  # its "fast" end, which waits for no client
            process.wait(timeout=30)


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

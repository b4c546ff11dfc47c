"""MLflow's own UI on a store, as a child process on loopback."""

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from hsearch.errors import ConfigError, HsearchError
from hsearch.tracking.address import checked_uri, database_file
from hsearch.tracking.server import HOST, PORT, end_server, server_answers, start_server

START_SECONDS = 120.0


def existing_store(uri: str) -> str:
    """Returns the address of a store as `checked_uri` does, or raises if its file is missing."""
    uri = checked_uri(uri)
    file = database_file(uri)
    if file is not None and not file.exists():
        raise ConfigError(
            f"There is no MLflow store {file} yet; `hsearch tune` makes one, or name another with "
            "`--tracking-uri`."
        )
    return uri


@contextmanager
def served_ui(uri: str, port: int | None = None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yields the address of MLflow's UI once it answers, and its process; ends it afterwards.

    Args:
        uri: Of a store that exists, not of a server.
        port: To listen on; None takes 5000 or, if that is taken, any free one.
    """
    uri = existing_store(uri)
    port = _port(port)
    with tempfile.TemporaryFile() as log:
        process = start_server(uri, port, log)
        try:
            _wait_until_it_answers(port, process, log)
            yield f"http://{HOST}:{port}", process
        finally:
            end_server(process)


def _port(wanted: int | None) -> int:
    """Returns a port that is free now."""
    for port in [wanted] if wanted else [PORT, 0]:
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            found: int = probe.getsockname()[1]
            return found
    raise ConfigError(f"Port {wanted} is taken; leave `--port` out for a free one.")


def _wait_until_it_answers(port: int, process: "subprocess.Popen[bytes]", log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if server_answers(port):
            return
        time.sleep(0.2)
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines() or ["it does not answer"]
    raise HsearchError(f"MLflow's UI could not be started: {lines[-1]}")

"""The services of a cluster's head node: PostgreSQL and MLflow's server, kept on loopback."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hsearch.cluster.head import SILENT_SECONDS, RayHead
from hsearch.cluster.postgres import Postgres
from hsearch.files import locked_at_once
from hsearch.tracking.server import (
    HOST,
    artifact_settings,
    end_server,
    server_answers,
    start_server,
)

_LOOK_SECONDS = 0.5
_STEADY_SECONDS = 60.0  # a service that ran so long is started again at once
_LONGEST_PAUSE = 60.0
_MARK = "HSEARCH_SERVICE"

Say = Callable[[str], None]


class Service(Protocol):
    """A program that is to run as long as the services do."""

    @property
    def name(self) -> str:
        """As people call it."""

    @property
    def log(self) -> Path:
        """The file with whatever it prints."""

    @property
    def address(self) -> str:
        """Where it answers."""

    def start(self) -> "subprocess.Popen[bytes]":
        """Starts it."""

    def answers(self) -> bool:
        """Returns whether it does its work."""

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Ends it and waits for that."""

    def clear(self) -> None:
        """Ends what is left of it after it was killed."""


@dataclass(frozen=True)
class MlflowServer:
    """MLflow's server on a database of PostgreSQL.

    Attributes:
        uri: Of the database.
        port: To listen on.
        log: Gets whatever it prints.
        settings: Further environment variables.
    """

    uri: str
    port: int
    log: Path
    settings: dict[str, str]

    name = "MLflow"

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"

    def start(self) -> "subprocess.Popen[bytes]":
        """Returns the process of the server; it does not answer yet."""
        with self.log.open("ab") as log:
            mark = {_MARK: str(self.log)}
            return start_server(self.uri, self.port, log, {**self.settings, **mark})

    def answers(self) -> bool:
        """Returns whether it answers."""
        return server_answers(self.port)

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Ends the server with all its children."""
        end_server(process)

    def clear(self) -> None:
        """Ends processes that outlived their parent; they are known by their environment."""
        mark = f"{_MARK}={self.log}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    os.kill(int(path.parent.name), signal.SIGKILL)


class Kept:
    """A service that is started again whenever it ends, after a pause that grows.

    Args:
        service: To keep.
        say: Tells every event.
    """

    def __init__(self, service: Service, say: Say) -> None:
        self.service = service
        self.answered = False
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._pause = 0.0
        self._next = 0.0

    def look(self) -> None:
        """Does what is to be done now: starts the service, tells that it answers or has ended."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._next:
                self._start(now)
        elif self._process.poll() is not None:
            self._has_ended(now, self._process.returncode)
        elif not self.answered and self.service.answers():
            self.answered = True
            self._say(f"{self.service.name} answers at {self.service.address}")

    def end(self) -> None:
        """Ends the service."""
        if self._process is not None:
            self.service.end(self._process)
            self.service.clear()
            self._say(f"{self.service.name} has ended")

    def _start(self, now: float) -> None:
        self.service.clear()
        self._process = self.service.start()
        self._started = now
        self._say(f"{self.service.name} started, process {self._process.pid}")

    def _has_ended(self, now: float, code: int) -> None:
        steady = now - self._started > _STEADY_SECONDS
        self._pause = 1.0 if steady else min(max(1.0, 2 * self._pause), _LONGEST_PAUSE)
        self._next = now + self._pause
        self._process, self.answered = None, False
        self._say(
            f"{self.service.name} ended by itself, code {code}, see {self.service.log}; started "
            f"again in {self._pause:.0f} s"
        )


def default_folder() -> Path:
    """Returns where the services keep their data."""
    return Path("/var/lib/hsearch") if os.geteuid() == 0 else Path.home() / ".hsearch"


def serve(folder: Path, ports: tuple[int, int], ray: str | None, say: Say) -> None:
    """Keeps the services until it is interrupted, or Ray is gone; returns at once if others do.

    Args:
        folder: Of all data and logs.
        ports: Of PostgreSQL and of MLflow.
        ray: HOST:PORT of the Ray head without which the services end; None needs none.
        say: Tells every event.
    """
    head = None if ray is None else RayHead(ray, "--with-ray")
    folder = folder.expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with locked_at_once(folder / "serve.lock") as locked:
        if not locked:
            say(f"The services of {folder} are kept already")
            return
        postgres = Postgres(folder / "postgres", ports[0], folder / "postgres.log")
        artifacts = artifact_settings(os.environ.get("HSEARCH_SHARED"), folder / "mlflow")
        uri = postgres.database("mlflow")
        mlflow = MlflowServer(uri, ports[1], folder / "mlflow.log", artifacts)
        mlflow.clear()  # before its database goes
        postgres.prepare()
        with _kept(Kept(postgres, say), Kept(mlflow, say)) as (first, second):
            while head is None or head.is_there():
                first.look()
                if first.answered or second.answered:
                    second.look()
                time.sleep(_LOOK_SECONDS)
            say(f"Ray at {ray} has not answered for {SILENT_SECONDS:.0f} s")


@contextmanager
def _kept(first: Kept, second: Kept) -> Iterator[tuple[Kept, Kept]]:
    """Ends both at the end, the one that needs the other before it."""
    try:
        yield first, second
    finally:
        try:
            second.end()
        finally:
            first.end()

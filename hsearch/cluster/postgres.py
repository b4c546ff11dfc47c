"""PostgreSQL on loopback for the records of a cluster: made on first use, started, ended.

Its one user who may log in, by password, owns two databases: that of the studies, and MLflow's.
"""

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hsearch.cluster.pgpass import password_for
from hsearch.errors import ConfigError, HsearchError

HOST = "127.0.0.1"
PORT = 5433
"""Not 5432, which Debian's own database has."""

USER = "hsearch"
DATABASES = ("hsearch", "mlflow")

_DEBIAN = Path("/usr/lib/postgresql")
_SERVER_USER = "postgres"  # for root, whom PostgreSQL does not let start it
_ACCESS = f"host all {USER} {HOST}/32 scram-sha-256\n"
_END_SECONDS = 30.0


@dataclass(frozen=True)
class Postgres:
    """A server of PostgreSQL.

    Attributes:
        folder: Of its data, which are made there if they are missing.
        port: To listen on.
        log: Gets whatever it prints.
    """

    folder: Path
    port: int
    log: Path

    name = "PostgreSQL"

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"{HOST}:{self.port}"

    def database(self, name: str) -> str:
        """Returns the URL of a database; the password is in ~/.pgpass."""
        return f"postgresql+psycopg://{USER}@{self.address}/{name}"

    def prepare(self) -> None:
        """Makes the data on first use, and the password that ~/.pgpass has."""
        if not self.folder.exists():
            self._make()
        self.clear()
        password = password_for(HOST, self.port, USER).replace("'", "''")
        self._tell(self.folder, [f"ALTER ROLE {USER} PASSWORD '{password}';"])

    def start(self) -> "subprocess.Popen[bytes]":
        """Returns the process of the server; it does not answer yet."""
        options = ["-D", str(self.folder), "-h", HOST, "-p", str(self.port), "-k", "."]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [self._program("postgres"), *options],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **_as_owner(),
            )

    def answers(self) -> bool:
        """Returns whether it takes connections."""
        asked = [
            self._program("pg_isready"),
            "-h",
            HOST,
            "-p",
            str(self.port),
            "-t",
            "1",
            "-U",
            USER,
        ]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Ends the server without waiting for its clients."""
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def clear(self) -> None:
        """Ends a server on these data that a killed process has left."""
        if self._runs():
            stop = [self._program("pg_ctl"), "stop", "-D", str(self.folder), "-m", "fast"]
            subprocess.run(stop, cwd="/", capture_output=True, check=False, **_as_owner())

    def _runs(self) -> bool:
        """Whether the process that these data name is their server, not another with its number."""
        with suppress(OSError, ValueError, IndexError):
            pid = int((self.folder / "postmaster.pid").read_text().split()[0])
            return Path(f"/proc/{pid}/cwd").samefile(self.folder)
        return False

    def _make(self) -> None:
        """Makes data, user and databases under another name: whole or not there."""
        new = self.folder.with_name(f".{self.folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True, mode=0o700)
        owner = _as_owner()
        if owner:
            os.chown(new, owner["user"], owner["group"])
        encoding = ["--encoding=UTF8", "--locale=C", "--auth=reject", f"--username={_SERVER_USER}"]
        _run([self._program("initdb"), "-D", str(new), *encoding])
        (new / "pg_hba.conf").write_text(_ACCESS, encoding="ascii")
        made = [f"CREATE DATABASE {name} OWNER {USER};" for name in DATABASES]
        self._tell(new, [f"CREATE ROLE {USER} LOGIN;", *made])
        new.rename(self.folder)

    def _tell(self, folder: Path, statements: Sequence[str]) -> None:
        """Runs SQL where no server runs; by stdin, which no other process can read."""
        alone = ["--single", "-D", str(folder), "-c", "exit_on_error=on", "postgres"]
        _run([self._program("postgres"), *alone], "\n".join(statements) + "\n")

    def _program(self, name: str) -> str:
        """The program of the version that made the data, or else of the newest."""
        version = self.folder / "PG_VERSION"
        wanted = version.read_text().strip() if version.exists() else "*"
        found = sorted(_DEBIAN.glob(f"{wanted}/bin/{name}"), key=lambda path: float(path.parts[-3]))
        path = str(found[-1]) if found else shutil.which(name)
        if path is None:
            raise ConfigError(
                f"The services of a cluster need PostgreSQL's `{name}`, which is not here; install "
                "the Debian package `postgresql`."
            )
        return path


def _as_owner() -> dict[str, Any]:
    """How root starts a process as the user that the server runs as."""
    if os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam(_SERVER_USER)
    except KeyError:
        raise ConfigError(
            f"Root runs PostgreSQL as the user `{_SERVER_USER}`, who is not here; install the "
            "Debian package `postgresql`, or do not be root."
        ) from None
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _run(command: list[str], text: str = "") -> None:
    done = subprocess.run(
        command, input=text, cwd="/", capture_output=True, text=True, check=False, **_as_owner()
    )
    if done.returncode != 0:
        # Not all of it: PostgreSQL repeats the statement, and there may be a password in it.
        wrong = re.findall(r"(?:error|FATAL|ERROR): +(.+)", done.stderr) or ["it tells no reason"]
        raise HsearchError(f"PostgreSQL could not be prepared: {wrong[-1]}.")

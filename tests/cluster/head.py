"""A head node with a dashboard and token authentication, as `ray start` makes one."""

import http.client
import random
import secrets
import shutil
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.searches import is_alive, kill, processes_of, wait_until
from tests.cluster.started import Started

_PORTS = (
    *("port", "dashboard-port", "ray-client-server-port", "metrics-export-port"),
    *("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "node-manager-port"),
    *("object-manager-port", "runtime-env-agent-port"),
)


@dataclass(frozen=True)
class Head:
    """A running head node.

    Attributes:
        address: HOST:PORT of the cluster.
        dashboard: http://HOST:PORT of its dashboard.
        environment: What a client needs to be let in.
    """

    address: str
    dashboard: str
    environment: dict[str, str]


@contextmanager
def running_head(cpus: int, environment: Mapping[str, str] | None = None) -> Iterator[Head]:
    """Starts a head node on free ports, and leaves no process and no file of it.

    Args:
        cpus: Of the node.
        environment: Beside the variables of this process, for all that runs there.
    """
    folder = Path(tempfile.mkdtemp(prefix="hsh-"))
    token = folder / "token"
    token.write_text(secrets.token_hex(32))
    ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
    entry = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_TMPDIR": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    arguments = [
        *("start", "--head", "--block", "--node-ip-address=127.0.0.1"),
        *("--dashboard-host=127.0.0.1", f"--num-cpus={cpus}", "--include-dashboard=true"),
        *(f"--temp-dir={folder}/ray", "--disable-usage-stats"),
        *(f"--{name}={port}" for name, port in ports.items()),
    ]
    printed = folder / "printed"
    printed.touch()
    process = Started(
        _ray,
        *arguments,
        folder=folder,
        output=printed,
        environment={**entry, **(environment or {})},
    )

    def is_up() -> bool:
        assert process.poll() is None, printed.read_text()
        return "Ray runtime started" in printed.read_text() and _answers(ports["dashboard-port"])

    try:
        wait_until(is_up, "a head node with a dashboard")
        where = "127.0.0.1:{}".format
        yield Head(where(ports["port"]), f"http://{where(ports['dashboard-port'])}", entry)
    finally:
        below = processes_of(process.pid)
        process.terminate()
        process.wait(60)
        for pid in filter(is_alive, below):
            kill(pid)
        wait_until(lambda: not any(map(is_alive, below)), "the cluster's processes are gone")
        shutil.rmtree(folder)


def _ray(*arguments: str) -> None:
    from ray.scripts.scripts import main

    sys.argv = ["ray", *arguments]
    main()


def _answers(port: int) -> bool:
    """Whether a dashboard speaks there, be it to ask for the token."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/api/version", timeout=5).close()
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except (OSError, http.client.HTTPException):
        return False
    return True


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, beyond those that Ray and the system give out themselves.

    One that the system gives out answers itself, now and then, when it is asked for too soon.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(21_000, 32_000)
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            found = [*dict.fromkeys([*found, port])]
    return found

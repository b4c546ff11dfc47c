"""A connection to Ray: a cluster of its own on this machine, or one that is already running."""

import math
import os
import secrets
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hsearch.cluster.preflight import Node, this_machine
from hsearch.errors import ClusterError, ConfigError
from hsearch.scratch import make_scratch

PLACING_SECONDS = 60
"""How long a worker group may wait for its place in the cluster."""

START_ATTEMPTS = 3
"""How often Ray is started where the machine is too busy for the 30 s that it allows itself."""

HEAD = "node:__internal_head__"
"""A resource that every cluster's head node has, and no other."""

# Read by Ray when it is imported or started; what the user has set stays.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # hsearch shows its own progress
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",  # raylet messages; hsearch tells what matters itself
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(PLACING_SECONDS),
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # the study is the record, not Tune's files
}

# Of a cluster that this process starts.
_LOCAL_SETTINGS = {
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # a process per group; nobody reclaims this machine
    "RAY_worker_niceness": "0",  # as willing as `hsearch train`
}

_broken_off: list[Path] = []
"""Scratch folders of sessions that have ended before all their work."""


@dataclass
class Session:
    """A connection to Ray.

    Attributes:
        scratch: Folder of this machine for files that nobody needs after the session.
    """

    scratch: Path
    _has_asked: bool = False

    def nodes(self) -> list[Node]:
        """Returns the nodes that are alive now."""
        import ray
        from ray._private.state import state

        ending = state.get_draining_nodes()
        return [
            Node(
                has.get("CPU", 0),
                has.get("GPU", 0),
                has.get("memory", math.inf),
                id=node["NodeID"],
                is_head=HEAD in has,
                is_leaving=node["NodeID"] in ending,
            )
            for node in ray.nodes()
            if node["Alive"]
            for has in [node["Resources"]]
        ]

    def break_off(self) -> None:
        """Leaves what is still at work to `end_process`."""
        _broken_off.append(self.scratch)

    def ask_for(self, ranks: int, resources: dict[str, float]) -> None:
        """Asks an autoscaling cluster for room for so many ranks, until the session ends."""
        from ray.autoscaler.sdk import request_resources

        self._has_asked = True
        request_resources(bundles=[resources] * ranks)

    def take_back(self) -> None:
        """Takes back what was asked for: a cluster would keep such machines for ever."""
        from ray.autoscaler.sdk import request_resources

        if self._has_asked:
            with suppress(Exception):  # where Ray no longer answers
                request_resources(bundles=[])


@contextmanager
def ray_session(address: str | None) -> Iterator[Session]:
    """Connects to Ray, and leaves it with nothing behind; after an error, see `end_process`.

    Args:
        address: Of a running cluster, `auto` for the one that this machine belongs to; None starts
            one on this machine for the time of the session.
    """
    settings = _SETTINGS | (_LOCAL_SETTINGS if address is None else {})
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    scratch = make_scratch("ray")
    import ray

    connected = False
    session = Session(scratch)
    try:
        with _own_signals():
            _connect(address, scratch)
        connected = True
        yield session
    except BaseException as error:
        if connected or not isinstance(error, Exception):
            _broken_off.append(scratch)
        raise
    finally:
        session.take_back()
        if scratch not in _broken_off:
            ray.shutdown()
            shutil.rmtree(scratch, ignore_errors=True)


def end_process(exit_code: int) -> None:
    """Ends the process at once if a session was broken off; does nothing otherwise.

    When a search is broken off, the threads of its worker groups are inside Ray's calls, and Ray
    crashes a process that shuts it down under them. So the processes of a session on this machine
    are ended here; on a running cluster, the end of this process ends what belongs to it.
    """
    if _broken_off:
        sys.stdout.flush()
        sys.stderr.flush()
        _kill(_descendants(os.getpid()))
        for scratch in _broken_off:
            shutil.rmtree(scratch, ignore_errors=True)
        os._exit(exit_code)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keeps this process's answer to SIGTERM, which Ray would replace by a dump of its stack."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def _descendants(ancestor: int) -> list[int]:
    """Returns all processes below a process, as far as this machine tells."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [ancestor]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _connect(address: str | None, scratch: Path) -> None:
    import ray

    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is not None:
        try:
            check_answer(address)
            ray.init(address=address, namespace="hsearch", **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            raise ConfigError(
                "`--address` must name a running Ray cluster that this machine is a part of: `auto`"
                f" or HOST:PORT, but '{address}' gave: {reason}; leave it out to search on this "
                "machine alone."
            ) from error
        return
    if not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # else Ray writes one to ~/.ray
    for attempt in range(START_ATTEMPTS):
        before = set(_descendants(os.getpid()))
        try:
            ray.init(
                address="local",
                num_cpus=int(this_machine().cpus),
                include_dashboard=False,
                namespace="hsearch",
                _temp_dir=str(scratch),
                **quiet,
            )
            return
        except Exception as error:
            _kill(set(_descendants(os.getpid())) - before)
            if "timed out" not in str(error) or attempt + 1 == START_ATTEMPTS:
                raise ClusterError(f"Ray could not be started on this machine: {error}") from error


def check_answer(address: str) -> None:
    """Raises an OSError at once where Ray itself would wait for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()

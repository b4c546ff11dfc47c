"""One driver per study, whatever the storage: the study's attribute `driver` names who has it.

On the same machine (same boot, same process namespace) a recorded driver is judged by its process,
so that a killed one is succeeded at once. Elsewhere its heartbeat must stand still: beats are
compared with each other and not with this machine's clock, which may differ.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from hsearch.errors import ConfigError, HsearchError
from hsearch.spec import Spec

LEASE_SECONDS = 30.0  # a heartbeat that stood still for so long is of a dead driver
BEAT_SECONDS = 5.0
SETTLE_SECONDS = 0.5  # of two that take a free study at once, the later one writes within this
CLOCKS_DIFFER = 300.0  # an older heartbeat is stale by any clock


class Driver(Spec):
    """Who drives a study.

    Attributes:
        host: Its name.
        boot: Identifies the run of its kernel; empty where unknown, as the next two.
        namespace: Identifies its process namespace, such as a container's.
        pid: Of the process.
        process_start: When the process began, in the kernel's clock ticks.
        token: Of this lease.
        since: When the lease began, in seconds since the epoch.
        heartbeat: When the driver last said that it lives, in seconds since the epoch.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    process_start: str
    token: str
    since: float
    heartbeat: float


class Attributes(Protocol):
    """What a lease needs of a study."""

    name: str

    def attribute(self, key: str) -> object:
        """Returns an attribute; null where there is none."""

    def set_attribute(self, key: str, value: object) -> None:
        """Sets an attribute."""

    def take_over(self) -> None:
        """Begins a driver's work."""


class Lease:
    """Holds a study for this process while the `with` block runs.

    Args:
        study: To hold.
        waiting: Told why, when it must be watched whether a driver elsewhere still lives.

    Attributes:
        lost: Set when another driver has taken the study; this one must stop.
    """

    def __init__(self, study: Attributes, waiting: Callable[[str], None] | None = None) -> None:
        self.lost = threading.Event()
        self._study, self._waiting = study, waiting
        self._me = _this_process()
        self._released = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Takes the study, or raises a ConfigError that names the driver who has it."""
        other = _read(self._study.attribute("driver"))
        if other is not None and self._outlives(other):
            raise self._refusal(other)
        self._write()
        time.sleep(SETTLE_SECONDS)
        winner = _read(self._study.attribute("driver"))
        if winner is None or winner.token != self._me.token:
            raise self._refusal(winner or self._me)
        try:
            self._study.take_over()
        except HsearchError:
            self.release()
            raise
        self._beating.start()

    def release(self) -> None:
        """Gives the study back, unless another driver has it by now."""
        self._released.set()
        if self._beating.is_alive():
            self._beating.join()
        with suppress(HsearchError):  # a storage that is gone frees the study by the heartbeat
            if self._is_mine():
                self._study.set_attribute("driver", None)

    def _outlives(self, other: Driver) -> bool:
        """Whether the recorded driver lives; one elsewhere is watched until that is certain."""
        if _is_near(other) or time.time() - other.heartbeat > CLOCKS_DIFFER:
            return driver_lives(other.to_dict())
        if self._waiting is not None:
            self._waiting(
                f"{other.host} has driven this study; watching for {LEASE_SECONDS:.0f} s whether "
                "it still does."
            )
        deadline = time.monotonic() + LEASE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(min(1.0, LEASE_SECONDS / 10))
            now = _read(self._study.attribute("driver"))
            if now is None:
                return False
            if (now.token, now.heartbeat) != (other.token, other.heartbeat):
                return True
        return False

    def _beat(self) -> None:
        while not self._released.wait(BEAT_SECONDS):
            with suppress(HsearchError):  # where the storage does not answer, nobody can take over
                if not self._is_mine():
                    self.lost.set()
                    return
                self._write()

    def _is_mine(self) -> bool:
        holder = _read(self._study.attribute("driver"))
        return holder is not None and holder.token == self._me.token

    def _write(self) -> None:
        self._me = self._me.model_copy(update={"heartbeat": time.time()})
        self._study.set_attribute("driver", self._me.to_dict())

    def _refusal(self, other: Driver) -> ConfigError:
        since = datetime.fromtimestamp(other.since).strftime("%Y-%m-%d %H:%M:%S")
        return ConfigError(
            f"'{self._study.name}' is in the hands of process {other.pid} on {other.host} since "
            f"{since}; wait for it, or end it."
        )


def driver_lives(recorded: object) -> bool:
    """Whether a study's recorded driver seems to be alive.

    A process of this machine is looked up; one elsewhere lives if its heartbeat is recent.
    """
    driver = _read(recorded)
    if driver is None:
        return False
    if _is_near(driver):
        return _process_start(driver.pid) == driver.process_start
    return abs(time.time() - driver.heartbeat) < LEASE_SECONDS


def _read(recorded: object) -> Driver | None:
    return None if recorded is None else Driver.from_dict(recorded)


def _this_process() -> Driver:
    now = time.time()
    return Driver(
        host=socket.gethostname(),
        boot=_boot(),
        namespace=_namespace(),
        pid=os.getpid(),
        process_start=_process_start(os.getpid()),
        token=uuid.uuid4().hex,
        since=now,
        heartbeat=now,
    )


def _is_near(driver: Driver) -> bool:
    """Whether the driver's process, if it lives, can be seen from here."""
    here = (socket.gethostname(), _boot(), _namespace())
    return all(here) and (driver.host, driver.boot, driver.namespace) == here


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _namespace() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _process_start(pid: int) -> str:
    """Start of a process in clock ticks since boot; empty where there is none or only a zombie."""
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()  # after the name, which may hold anything
        return "" if fields[0] in "ZX" else fields[19]
    return ""

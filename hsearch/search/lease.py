"""One driver per study, whatever the storage: the study's attribute `driver` names who has it.

On the same machine (same boot, same process namespace) a recorded driver is judged by its process,
so that a killed one is succeeded at once. Elsewhere its heartbeat must stand still: beats are
compared with each other and not with this machine's clock, which may differ.

Whoever reaches the storage may ask the driver to stop; the request names the lease that it means,
so that it never stops a later driver.
"""

import shlex
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self

from hsearch.errors import ConfigError, HsearchError
from hsearch.search.driver import Driver, is_near, process_start, this_process
from hsearch.spec import Spec

LEASE_SECONDS = 30.0  # a heartbeat that stood still for so long is of a dead driver
BEAT_SECONDS = 5.0
SETTLE_SECONDS = 0.5  # of two that take a free study at once, the later one writes within this
CLOCKS_DIFFER = 300.0  # an older heartbeat is stale by any clock


class StopRequest(Spec):
    """Asks a driver to stop.

    Attributes:
        token: Of the lease that shall end.
        host: Where it was asked.
    """

    token: str
    host: str


class Attributes(Protocol):
    """A study as far as it is read and noted who drives it."""

    name: str

    def attribute(self, key: str) -> object:
        """Returns an attribute; null where there is none."""

    def set_attribute(self, key: str, value: object) -> None:
        """Sets an attribute."""


class Drivable(Attributes, Protocol):
    """What a lease needs of a study."""

    def take_over(self) -> None:
        """Begins a driver's work."""


class Lease:
    """Holds a study for this process while the `with` block runs.

    Args:
        study: To hold.
        waiting: Told why, when it must be watched whether a driver elsewhere still lives.

    Attributes:
        lost: Set when another driver has taken the study; this one must stop.
        stopping: Set when somebody has asked this driver to stop, on the host `stopped_from`.
    """

    def __init__(self, study: Drivable, waiting: Callable[[str], None] | None = None) -> None:
        self.lost, self.stopping = threading.Event(), threading.Event()
        self.stopped_from = ""
        self._study, self._waiting = study, waiting
        self._at_beats: list[Callable[[], None]] = []
        self._me = this_process()
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

    def check_free(self) -> None:
        """Raises a ConfigError that names the driver who has the study, if there is one."""
        other = read_driver(self._study)
        if other is not None and self._outlives(other):
            raise self._refusal(other)

    def acquire(self) -> None:
        """Takes the study, or raises a ConfigError that names the driver who has it."""
        self.check_free()
        self._write()
        time.sleep(SETTLE_SECONDS)
        winner = read_driver(self._study)
        if winner is None or winner.token != self._me.token:
            raise self._refusal(winner or self._me)
        try:
            self._study.take_over()
        except HsearchError:
            self.release()
            raise
        self._beating.start()

    def at_every_beat(self, function: Callable[[], None]) -> None:
        """Has a function called at every beat from now on, in the thread of the beats."""
        self._at_beats.append(function)

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
        if is_near(other) or time.time() - other.heartbeat > CLOCKS_DIFFER:
            return driver_lives(other.to_dict())
        if self._waiting is not None:
            self._waiting(
                f"{other.host} has driven this study; watching for {LEASE_SECONDS:.0f} s whether "
                "it still does."
            )
        deadline = time.monotonic() + LEASE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(min(1.0, LEASE_SECONDS / 10))
            now = read_driver(self._study)
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
                self._look_for_request()
                for function in self._at_beats:
                    function()

    def _look_for_request(self) -> None:
        request = stop_request(self._study, self._me)
        if request is not None:
            self.stopped_from = request.host
            self.stopping.set()

    def _is_mine(self) -> bool:
        holder = read_driver(self._study)
        return holder is not None and holder.token == self._me.token

    def _write(self) -> None:
        self._me = self._me.model_copy(update={"heartbeat": time.time()})
        self._study.set_attribute("driver", self._me.to_dict())

    def _refusal(self, other: Driver) -> ConfigError:
        since = datetime.fromtimestamp(other.since).strftime("%Y-%m-%d %H:%M:%S")
        return ConfigError(
            f"'{self._study.name}' is in the hands of {other} since {since}; wait for it, or end "
            f"it with `hsearch stop {shlex.quote(self._study.name.partition('/')[0])}`."
        )


class Pulse:
    """Whether a driver lives, by looking at it again and again.

    One elsewhere is dead once its heartbeat stood still for LEASE_SECONDS while it was looked at.

    Args:
        clock: Seconds, from any moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: tuple[str, float] | None = None
        self._since = 0.0

    def beats(self, driver: Driver) -> bool:
        """Takes note of the driver as it is recorded now, and returns whether it lives."""
        if is_near(driver) or time.time() - driver.heartbeat > CLOCKS_DIFFER:
            return driver_lives(driver.to_dict())
        if (driver.token, driver.heartbeat) != self._seen:
            self._seen, self._since = (driver.token, driver.heartbeat), self._clock()
        return self._clock() - self._since < LEASE_SECONDS

    def forget(self) -> None:
        """Begins anew, as after a time in which the storage did not answer."""
        self._seen = None


def ask_to_stop(study: Attributes, driver: Driver) -> None:
    """Asks the driver of a study to stop; it looks for requests at every beat."""
    request = StopRequest(token=driver.token, host=socket.gethostname())
    study.set_attribute("stop", request.to_dict())


def stop_request(study: Attributes, driver: Driver) -> StopRequest | None:
    """Returns the request by which this very driver was asked to stop."""
    recorded = study.attribute("stop")
    request = None if recorded is None else StopRequest.from_dict(recorded)
    return request if request is not None and request.token == driver.token else None


def read_driver(study: Attributes) -> Driver | None:
    """Returns who drives a study, dead or alive; None if nobody does."""
    return _read(study.attribute("driver"))


def driver_lives(recorded: object) -> bool:
    """Whether a study's recorded driver seems to be alive.

    A process of this machine is looked up; one elsewhere lives if its heartbeat is recent.
    """
    driver = _read(recorded)
    if driver is None:
        return False
    if is_near(driver):
        return process_start(driver.pid) == driver.process_start
    return abs(time.time() - driver.heartbeat) < LEASE_SECONDS


def _read(recorded: object) -> Driver | None:
    return None if recorded is None else Driver.from_dict(recorded)

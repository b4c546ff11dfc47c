"""Stopping what is driven of a study, from any machine that reaches the storage."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Literal

from hsearch.errors import HsearchError
from hsearch.search.driver import Driver
from hsearch.search.lease import Pulse, ask_to_stop, read_driver
from hsearch.search.reading import check_known
from hsearch.search.reproduced import PROTOCOLS, Protocol
from hsearch.search.reproduction import record_name
from hsearch.search.storage import Storage
from hsearch.search.stored import StoredStudy

LOOK_SECONDS = 1.0
GIVE_UP_SECONDS = 300.0
"""Longer than a driver waits for its running epochs, unless they are very long."""

Ending = Literal["stopped", "dead", "busy"]
"""It has let go; it was dead already; it is alive and does not let go."""


class Stop:
    """One driver that shall stop.

    Args:
        study: The record that it drives, of a search or of a reproduction.
        driver: As it is recorded.
        protocol: Of the reproduction; None for a search.
    """

    def __init__(self, study: StoredStudy, driver: Driver, protocol: Protocol | None) -> None:
        self.study, self.driver, self.protocol = study, driver, protocol
        self._pulse = Pulse()

    def ask(self) -> None:
        """Asks the driver to stop; it sees that at its next beat."""
        ask_to_stop(self.study, self.driver)

    def wait(self, sleep: Callable[[float], None] = time.sleep) -> Ending:
        """Waits until the driver has let go, or is seen to be dead."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < deadline:
            try:
                now = read_driver(self.study)
                if now is None or now.token != self.driver.token:
                    return "stopped"
                if not self._pulse.beats(now):
                    return "dead"
            except HsearchError:  # a storage that does not answer says nothing about the driver
                self._pulse.forget()
            sleep(LOOK_SECONDS)
        return "busy"


@contextmanager
def driven(name: str, storage: str) -> Iterator[list[Stop]]:
    """Opens what is driven of a study: its search and its reproductions, dead drivers among them.

    Raises:
        ConfigError: There is no such study.
    """
    with closing(Storage(storage, create=False)) as opened:
        with opened.guarded():
            check_known(name, opened)
            known = {study.study_name for study in opened.optuna.get_all_studies()}
        names = {name: None, **{record_name(name, protocol): protocol for protocol in PROTOCOLS}}
        found = []
        for each in names.keys() & known:
            record = StoredStudy(each, opened)
            if (driver := read_driver(record)) is not None:
                found.append(Stop(record, driver, names[each]))
        yield sorted(found, key=lambda stop: stop.study.name)

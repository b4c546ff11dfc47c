"""The head of a running Ray cluster, as far as one can ask it without Ray."""

import socket
import time
from contextlib import suppress

from hsearch.errors import ConfigError

SILENT_SECONDS = 20.0
"""How long a head may be silent before it counts as gone."""

_ASK_SECONDS = 2.0


class RayHead:
    """The head of a Ray cluster, asked now and then whether it is there.

    Args:
        address: HOST:PORT.
        flag: By which it was given.
    """

    def __init__(self, address: str, flag: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"`{flag}` must be HOST:PORT of a Ray head, but is '{address}'.")
        self._place = (host, int(port))
        self._answered = time.monotonic()
        self._next = self._answered

    def is_there(self) -> bool:
        """Returns whether it has answered in the last seconds."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _ASK_SECONDS
            if self.answers():
                self._answered = now
        return now - self._answered < SILENT_SECONDS

    def answers(self) -> bool:
        """Returns whether it answers now."""
        with suppress(OSError, OverflowError):  # a port beyond all ports
            socket.create_connection(self._place, timeout=_ASK_SECONDS).close()
            return True
        return False

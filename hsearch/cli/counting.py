"""Progress of work that is counted in images: a bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

_LINE_SECONDS = 5.0
_SOONER_SECONDS = 1.0


class PlainLines:
    """Prints a line every 5 seconds, or after a tenth of the images if that takes a second."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._time, self._done = clock(), 0

    def __call__(self, done: int, total: int) -> None:
        """Is told how many images are done, and of how many."""
        waited = self._clock() - self._time
        tenth = 10 * (done - self._done) >= total
        if waited >= _LINE_SECONDS or (tenth and waited >= _SOONER_SECONDS):
            click.echo(f"{self._what}: {done}/{total} ({done / total:.0%})", err=True)
            self._time, self._done = self._clock(), done


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Shows progress on stderr; yields what is to be called with (done, total)."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield PlainLines(what)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

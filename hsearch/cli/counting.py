"""Progress of long work, phase by phase: a bar on a terminal, plain lines elsewhere."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from hsearch.data.progress import Count
from hsearch.data.progress import Progress as Told

_LINE_SECONDS = 5.0
_SOONER_SECONDS = 1.0
_MARKS = 30
"""How many seconds, as there is a mark per second, the speed is measured over."""


class PlainLines:
    """Prints a line every 5 seconds, or after a tenth of a phase if that takes a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin("", 0)

    def _begin(self, what: str, done: int) -> None:
        self._what, self._time, self._done = what, self._clock(), 0
        self._marks = deque([(self._time, done)], maxlen=_MARKS)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Is told what goes on, how much of it is done, and of how much."""
        if what != self._what or done < self._marks[-1][1]:
            self._begin(what, done)
        now = self._clock()
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, done))
        waited = now - self._time
        tenth = 10 * (done - self._done) >= total
        if waited >= _LINE_SECONDS or (tenth and waited >= _SOONER_SECONDS):
            line = f"{what}: {done}/{total} ({done / total:.0%}){self._left(now, done, total)}"
            click.echo(line, err=True)
            self._time, self._done = now, done

    def _left(self, now: float, done: int, total: int) -> str:
        """How long the rest takes at the speed of the last half minute."""
        begin, before = self._marks[0]
        if done in (total, before):
            return ""
        return f", {duration((total - done) * (now - begin) / (done - before))} left"


def duration(seconds: float) -> str:
    """Returns a time in words that are as exact as an estimate deserves."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class _Bar:
    """Draws one bar, which begins anew with every phase."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, visible=False)

    def __call__(self, what: str, done: int, total: int) -> None:
        task = self._bar.tasks[0]
        if what != task.description or done < task.completed:
            self._bar.reset(self._task, description=what, visible=True)
        self._bar.update(self._task, completed=done, total=total)


@contextmanager
def showing() -> Iterator[Told]:
    """Shows progress on stderr; yields what is to be called with (what, done, total)."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield PlainLines()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar)


@contextmanager
def counting(what: str) -> Iterator[Count]:
    """Shows the progress of a single phase; yields what is to be called with (done, total)."""
    with showing() as progress:
        yield partial(progress, what)

"""What a person sees of a preparation: its progress, what was found, and the file that lists it."""

import csv
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from hsearch.cli.output import print_table
from hsearch.data.records import Report

EXAMPLES = 3
"""How many places a table shows per reason."""

_LINE_SECONDS = 5.0
_SOONER_SECONDS = 1.0


class PlainLines:
    """Prints a line every 5 seconds, or after a tenth of the images if that takes a second."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._time, self._done = clock(), 0

    def __call__(self, done: int, total: int) -> None:
        """Is told how many images are done, and of how many."""
        waited = self._clock() - self._time
        tenth = 10 * (done - self._done) >= total
        if waited >= _LINE_SECONDS or (tenth and waited >= _SOONER_SECONDS):
            click.echo(f"preparing {self._name}: {done}/{total} ({done / total:.0%})", err=True)
            self._time, self._done = self._clock(), done


@contextmanager
def preparing(name: str) -> Iterator[Callable[[int, int], None]]:
    """Shows progress on stderr: a bar on a terminal, else plain lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield PlainLines(name)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"preparing {name}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_found(report: Report) -> None:
    """Prints what the source noted, and a few places of everything that was found."""
    for note in report.notes:
        click.echo(note)
    rows = [
        (reason, str(len(places)), ", ".join(places[:EXAMPLES]))
        for reason, places in _found(report).items()
    ]
    if rows:
        print_table(("reason", "count", "such as"), rows, title="Found:")


def write_found(path: Path, report: Report) -> None:
    """Writes all places of everything that was found as a CSV: reason, where."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("reason", "where"))
        for reason, places in _found(report).items():
            writer.writerows((reason, place) for place in places)


def _found(report: Report) -> dict[str, list[str]]:
    conflicts = set(report.conflicts)
    same = [group for group in report.duplicates if group not in conflicts]
    identical = {
        "identical images with different labels (kept)": report.conflicts,
        "identical images (kept)": same,
    }
    return report.by_reason() | {
        reason: [" = ".join(group) for group in groups]
        for reason, groups in identical.items()
        if groups
    }

"""Searches run as a user runs them: the `hsearch` command in a process and a folder of its own.

Its process is forked from one that has imported much of what it needs, for speed alone.
"""

import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from hsearch.cli.main import main
from hsearch.data.store import Store
from hsearch.training.checkpoint import read_notes
from tests.breakpoints import Breakpoint
from tests.cluster.started import Started
from tests.conftest import TINY

LIMIT_SECONDS = 600
QUICK = {**TINY, "model.backbone_args.output_stride": 32}  # a fold of it trains in a second


def _hsearch(*arguments: str) -> None:
    sys.argv = ["hsearch", *arguments]
    main(list(arguments), prog_name="hsearch")


class Command:
    """A command of hsearch, with everything it writes in one folder.

    Args:
        folder: Working directory of the command.
        arguments: Behind `hsearch`, repeated at every start.

    Attributes:
        breakpoint: Of its trainings; those on a running cluster heed it if that was started with
            `breakpoint.environment`.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.breakpoint = Breakpoint(folder / "breakpoint")
        self.pid = 0
        self.processes: list[int] = []
        self.output = folder / f"printed-{secrets.token_hex(4)}"
        self.arguments = arguments

    def run(self, *options: str, exit_code: int = 0) -> str:
        """Runs the command to its end and returns what it printed."""
        with self.started(*options) as process:
            process.wait(LIMIT_SECONDS)
        printed = self.printed()
        assert process.returncode == exit_code, printed
        return printed

    @contextmanager
    def started(self, *options: str) -> Iterator[Started]:
        """Starts the command; whatever is left of it is killed at the end."""
        self.output.write_text("")
        process = Started(
            _hsearch,
            *(*self.arguments, *options),
            folder=self.folder,
            output=self.output,
            environment=self.breakpoint.environment,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def printed(self) -> str:
        return self.output.read_text()

    def wait_for(self, text: str, process: Started, times: int = 1) -> None:
        """Waits until the command has printed a text, so many times."""
        self.wait_until(lambda: self.printed().count(text) >= times, text, process)

    def wait_for_breakpoint(self, process: Started, trainings: int = 1) -> None:
        """Waits until so many trainings have come to the breakpoint."""
        where = f"{trainings} at the breakpoint"
        self.wait_until(lambda: self.breakpoint.waiting() >= trainings, where, process)

    def wait_until(self, predicate: Callable[[], object], what: str, process: Started) -> None:
        """Waits as `wait_until` does for what the command brings about; else tells its output."""
        try:
            wait_until(predicate, what, process=process)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.printed()}") from None


class Search(Command):
    """`hsearch tune` on the toy data, with everything it writes in one folder.

    Args:
        folder: Working directory of the commands.
        data: A store, or what names one.
        options: Further options of `tune`, repeated at every start.
        method: Name of a method.
        settings: Instead of those that are `QUICK`, by dotted name with __ for dots; none of
            those that are None.
    """

    def __init__(
        self,
        folder: Path,
        data: Store | str,
        *options: str,
        method: str = "proxy_nca",
        **settings: object,
    ) -> None:
        other = {key.replace("__", "."): value for key, value in settings.items()}
        given = {key: value for key, value in {**QUICK, **other}.items() if value is not None}
        sets = [f"--set={key}={value}" for key, value in given.items()]
        place = data if isinstance(data, str) else str(data.path)
        named = ("tune", "--method", method, "--data", place, "--study", "toy")
        super().__init__(folder, *named, *sets, *options)

    def record(self) -> dict[str, Any]:
        """What `hsearch studies --json` says."""
        record: dict[str, Any] = json.loads(Command(self.folder, "studies", "toy", "--json").run())
        return record

    def table(self) -> list[tuple[Any, ...]]:
        """What decides a study, without times and run ids."""
        return [
            (t["number"], t["state"], t["source"], t["knobs"], t["reason"], scores(t))
            for t in self.record()["trials"]
        ]


def history(checkpoint: Path) -> list[dict[str, Any]]:
    """The epochs of which a run folder's checkpoint knows."""
    records: list[dict[str, Any]] = read_notes(checkpoint)["history"]
    return records


def scores(trial: dict[str, Any]) -> list[float]:
    return [trial["folds"][fold]["score"] for fold in sorted(trial["folds"])]


class Ends(Protocol):
    """A process that can be asked whether it has ended, as `Popen` and `Started` can."""

    def poll(self) -> int | None:
        """Returns its exit code, None while it runs."""


def wait_until(
    predicate: Callable[[], object],
    what: str = "",
    seconds: float = 480,
    process: Ends | None = None,
) -> None:
    """Waits until the predicate holds; fails when it is too late for that.

    Args:
        predicate: Asked again and again.
        what: What it waits for, in words.
        seconds: How long at most.
        process: Who brings it about; once that has ended, nothing is waited for.
    """
    deadline = time.monotonic() + seconds
    while True:
        code = None if process is None else process.poll()  # asked first: its last act counts
        if predicate():
            return
        assert code is None, f"ended with exit code {code} before: {what}"
        assert time.monotonic() < deadline, f"waited {seconds} s for: {what}"
        time.sleep(0.1)


def processes_of(pid: int, name: str = "") -> list[int]:
    """Descendants of a process whose command line contains `name`."""
    children: dict[int, list[int]] = {}
    lines: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            line = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, ValueError):
            continue  # it has just ended
        children.setdefault(parent, []).append(int(folder.name))
        lines[int(folder.name)] = line
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        todo += below
        found += [p for p in below if name in lines[p]]
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

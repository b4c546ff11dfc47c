"""What a person sees of a reproduction: a bar on a terminal, plain lines elsewhere."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hsearch.cli.searching import Pace
from hsearch.cli.study_words import duration_words
from hsearch.cluster.reproducing import RunWatch
from hsearch.folds import ALL_CLASSES
from hsearch.methods import load_method
from hsearch.results import EpochRecord, TestedKind, score_of
from hsearch.search.reproduced import ReproductionRecord, RunRecord
from hsearch.words import FLOORS, FloorWords, metric_title, plural

KINDS: tuple[TestedKind, ...] = ("separated", "concatenated")


def result_rows(record: ReproductionRecord) -> tuple[list[str], list[list[str]]]:
    """Returns the columns and rows of the result: every metric of every kind, and the floor."""
    means = {kind: found for kind in KINDS if (found := record.means(kind))}
    one_network = len(record.spec.folds) == 1
    floor = record.floor or {}
    rows = [
        [
            metric_title(name, record.level_names),
            *(str(found[name]) for found in means.values()),
            _value(floor, name),
        ]
        for name in next(iter(means.values()), floor)
    ]
    kinds = ["score"] if one_network else list(means)
    return ["metric", *kinds[: len(means)], f"floor ({floor_words(record).short})"], rows


def floor_words(record: ReproductionRecord) -> FloorWords:
    """Returns how the floor of the method's task is called."""
    return FLOORS[load_method(record.spec.job.method.name).task]


def below_floor(record: ReproductionRecord) -> list[str]:
    """Returns in which ways the runs score no better than the floor."""
    floor = record.floor or {}
    found: list[str] = []
    for kind in KINDS:
        means = {name: mean.mean for name, mean in record.means(kind).items()}
        name = record.spec.objective(means)
        if name in means and name in floor and score_of(means, name) <= score_of(floor, name):
            found.append(kind)
    return found


def so_far(record: ReproductionRecord) -> str:
    """Returns `8 finished fold trainings, 2 tested runs`, and what failed."""
    return _counts(record.runs)


def _counts(runs: Iterable[RunRecord]) -> str:
    runs = list(runs)
    trained = sum(len(run.folds) for run in runs)
    states = Counter(run.state for run in runs)
    failed = f", {states['failed']} failed" if states["failed"] else ""
    tested = plural(states["complete"], "tested run")
    return f"{plural(trained, 'finished fold training')}, {tested}{failed}"


def _value(metrics: dict[str, float], name: str) -> str:
    return f"{metrics[name]:.4f}" if name in metrics else "-"


class ReproductionProgress(RunWatch):
    """Shows a reproduction as it goes.

    Args:
        record: As it stands before.
        ended: Called after the end of every run.
        again: The command that continues it.
        aside: Whether to print to standard error, as where the result is for a program.
        clock: Seconds, from any moment.
    """

    def __init__(
        self,
        record: ReproductionRecord,
        ended: Callable[[], object],
        again: str,
        *,
        aside: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec, self.level_names = record.spec, record.level_names
        self.floor_noun = floor_words(record).noun
        self.runs = {run.number: run for run in record.runs}
        self.ended, self.again = ended, again
        self.console = Console(highlight=False, markup=False, stderr=aside)
        self.pace = Pace(clock)
        self.workers = ""
        self.live = Live(
            console=self.console,
            get_renderable=self._display,
            refresh_per_second=2,
            transient=True,
        )

    def __enter__(self) -> Self:
        job, runs = self.spec.job, self.runs.values()
        trainings = plural(len(self.spec.folds), "training")
        self.said(
            f"Reproduction of {self.spec.study}, trial {self.spec.trial} ({job.method.name} on "
            f"{job.data}), {self.spec.protocol}: {plural(len(self.runs), 'run')} of {trainings}, "
            f"seeds {min(run.seed for run in runs)} to {max(run.seed for run in runs)}"
        )
        if self._trained() or any(run.state != "running" for run in runs):
            self.said(f"Recorded so far: {self._so_far()}.")
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.live.stop()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.said(f"Stopped. {self.parting_words()}")

    def parting_words(self) -> str:
        """Returns what is kept of a reproduction that is not over, and how to go on."""
        return (
            f"The record keeps {self._so_far()}. To go on, run `{self.again}`; interrupted folds "
            "continue after their last epoch."
        )

    def said(self, sentence: str) -> None:
        """Prints the sentence, as one line where nobody but a program or a file reads it."""
        self.console.print(sentence, soft_wrap=not self.console.is_terminal)

    def groups(self, alive: int, wanted: int) -> None:
        """Keeps the numbers for the display."""
        self.workers = f"{alive} of {wanted} worker groups"

    def epoch(self, number: int, fold: int, record: EpochRecord) -> None:
        """Counts the epoch, unless its fold has finished before the news came."""
        run = self.runs[number]
        if run.state == "running" and fold not in run.folds:
            self.pace.epoch(number, fold, record, self.spec.job.training.schedule.epochs)

    def floor(self) -> None:
        """Says that the floor is tested."""
        self.said(f"The floor is tested: {self.floor_noun}.")

    def run(self, record: RunRecord) -> None:
        """Prints what is new about a run: finished folds (in a pipe), and its end."""
        before = self.runs[record.number]
        self.runs = {**self.runs, record.number: record}
        for fold in sorted(record.folds.keys() - before.folds.keys()):
            self.pace.fold(record.number, fold)
            if not self.console.is_terminal:
                what = "" if fold == ALL_CLASSES else f"  fold {fold}"
                self.said(f"run {record.number}{what}  trained")
        if record.state != "running" and before.state == "running":
            self.pace.end(record.number)
            self.said(f"run {record.number}  {self._end_words(record)}")
            self.ended()

    def _end_words(self, run: RunRecord) -> str:
        if run.tested is None:
            return f"failed: {run.reason}"
        found = {kind: metrics for kind in KINDS if (metrics := run.tested.metrics(kind))}
        name = self.spec.objective(run.tested.separated)
        title = metric_title(name, self.level_names)
        if len(found) == 1:
            return f"tested  {title} {run.tested.separated[name]:.4f}"
        scores = ", ".join(f"{metrics[name]:.4f} {kind}" for kind, metrics in found.items())
        return f"tested  {title} {scores}"

    def _trained(self) -> int:
        return sum(len(run.folds) for run in self.runs.values())

    def _so_far(self) -> str:
        return _counts(self.runs.values())

    def _display(self) -> Group:
        """The live part of a terminal, drawn twice a second from another thread."""
        total = len(self.spec.folds) * len(self.runs)
        trained = self._trained()
        bar = Table.grid(padding=(0, 1))
        counts = f"{trained} of {total}; {self._so_far().partition(', ')[2]} of {len(self.runs)}"
        bar.add_row("trainings", ProgressBar(total=total, completed=trained, width=30), counts)
        pace = self.pace.folds_per_minute()
        parts = [self.workers] if self.workers else []
        if pace is None:
            parts.append("no epoch finished yet")
        else:
            left = duration_words(60 * max(0, total - trained) / pace)
            parts += [f"{pace:.1f} folds a minute", f"about {left} left"]
        return Group(bar, Text(", ".join(parts)))

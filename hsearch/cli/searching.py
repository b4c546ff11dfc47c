"""What a person sees of a search: a live display on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hsearch.cli.study_words import (
    count_words,
    duration_words,
    fold_seconds,
    knob_words,
    score_words,
    state_words,
    stopped_words,
)
from hsearch.folds import NUM_FOLDS
from hsearch.methods import load_method
from hsearch.results import EpochRecord, FoldTime, score_of
from hsearch.search.record import StudyRecord, TrialRecord
from hsearch.search.watch import Watch
from hsearch.words import FLOORS, plural

_SHOWN_FOLDS = 8
_LINE_SECONDS = 10.0


class Pace:
    """How fast fold trainings go in this session, and what that says about the rest.

    A running fold counts by its share of epochs, so that the pace does not jump with every end.
    What an earlier session has trained of it does not count.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.began: float | None = None
        self.noted = 0.0
        self.finished = 0.0
        self.shares: dict[tuple[int, int], float] = {}
        self.earlier: dict[tuple[int, int], float] = {}

    def epoch(self, number: int, fold: int, record: EpochRecord, epochs: int) -> None:
        """Notes that a fold has finished one of its epochs; the first one starts the clock."""
        self.noted = self.clock()
        if self.began is None:
            self.began = self.noted - record.seconds
        self.earlier.setdefault((number, fold), (record.epoch - 1) / epochs)
        self.shares[number, fold] = record.epoch / epochs

    def fold(self, number: int, fold: int) -> None:
        """Notes that a fold is finished."""
        self.noted = self.clock()
        self.shares.pop((number, fold), None)
        self.finished += 1 - self.earlier.pop((number, fold), 0.0)

    def end(self, number: int) -> None:
        """Forgets what a trial that has ended still had under way."""
        for key in [key for key in self.shares if key[0] == number]:
            del self.shares[key], self.earlier[key]

    def folds_per_minute(self) -> float | None:
        """Returns the mean of the session up to its last news; None before there are any."""
        done = self.finished + sum(self.shares.values()) - sum(self.earlier.values())
        if self.began is None or done <= 0 or self.noted <= self.began:
            return None
        return 60 * done / (self.noted - self.began)

    def seconds_left(self, trials: Iterable[TrialRecord], total: int) -> float | None:
        """Returns the time for the remaining trials, if they need as many folds as those so far.

        Before any trial has ended, all folds are reckoned for each.
        """
        pace = self.folds_per_minute()
        if pace is None:
            return None
        trials = list(trials)
        ended = [len(trial.folds) for trial in trials if trial.state in ("complete", "lost")]
        per_trial = sum(ended) / len(ended) if ended else NUM_FOLDS
        running = [trial for trial in trials if trial.state == "running"]
        new = max(0, total - len(trials))
        started = sum(self.shares.values())
        left = new * per_trial + sum(max(1, per_trial - len(t.folds)) for t in running) - started
        return max(0.0, 60 * left / pace - (self.clock() - self.noted))


@dataclass(frozen=True)
class Computing:
    """How far the features of a frozen backbone are.

    Attributes:
        began: When this was first heard of.
        first: Views that were there then.
        total: All views.
        done: Views that are there now.
        now: When this was last heard of.
        said: When it was last printed.
        ended: Whether all are there.
    """

    began: float
    first: int
    total: int
    done: int = 0
    now: float = 0.0
    said: float = 0.0
    ended: bool = False

    def words(self) -> str:
        """Returns `features: 3,072 of 29,320 views, about 40 s left`."""
        words = f"features: {self.done:,} of {self.total:,} views"
        if self.done > self.first:
            pace = (self.now - self.began) / (self.done - self.first)
            words += f", about {duration_words(pace * (self.total - self.done))} left"
        return words


def time_words(
    fold: FoldTime, frozen: FoldTime | None, groups: int, trials: int, *, race: bool
) -> str:
    """Returns `About 4 min a fold here; 50 trials with the race about 2.7 h; ...`."""
    about = "At most" if fold.may_stop_early else "About"
    own = duration_words(fold.study_seconds(trials, groups, race=race))
    raced = " with the race" if race else ""
    words = (
        f"{about} {duration_words(fold.seconds)} a fold here; {plural(trials, 'trial')}{raced} "
        f"{about.lower()} {own}"
    )
    if frozen is not None:
        other = duration_words(frozen.study_seconds(trials, groups, race=race))
        words += f"; `--regime frozen` {about.lower()} {other}"
    return f"{words}."


class SearchProgress(Watch):
    """Shows a search as it goes.

    Args:
        record: The study as it stands before the search.
        total: How many trials it is to have.
        clock: Seconds, from any moment.
    """

    def __init__(
        self, record: StudyRecord, total: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.study, self.total = record, total
        self.objective = record.spec.job.objective
        self.title = record.score_title
        self.console = Console(highlight=False, markup=False)
        self.trials = {trial.number: trial for trial in record.trials}
        self.best = record.best
        self.epochs: dict[tuple[int, int], EpochRecord] = {}
        self.workers = ""
        self.computing: Computing | None = None
        self.pace = Pace(clock)
        self.live = Live(
            console=self.console,
            get_renderable=self._display,
            refresh_per_second=2,
            transient=True,
        )

    def __enter__(self) -> Self:
        job = self.study.spec.job
        self.said(
            f"Study {self.study.name}: {job.method.name} on {job.data}, recipe "
            f"{job.training.recipe}, {job.splits} splits, seed {job.seed}, "
            f"{plural(self.total, 'trial')} of up to {NUM_FOLDS} folds"
        )
        if self.trials:
            self.said(self._so_far())
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
            self.said(self._parting_words())

    def _parting_words(self) -> str:
        trials = tuple(self.trials.values())
        return stopped_words(self.study.model_copy(update={"trials": trials}))

    def _so_far(self) -> str:
        folds = plural(self.study.folds_trained, "finished fold training")
        counts = count_words(self.study.trials, searching=False)
        return f"Recorded so far: {counts}, with {folds}; what was interrupted goes on."

    def said(self, sentence: str) -> None:
        """Prints the sentence, as one line where nobody but a program or a file reads it."""
        self.console.print(sentence, soft_wrap=not self.console.is_terminal)

    def features(self, done: int, total: int) -> None:
        """Keeps how far features are for the display, and prints a line now and then elsewhere."""
        now = self.pace.clock()
        if self.computing is None:
            self.computing = Computing(now, done, total, said=now)
            self.said(
                f"Computing what the frozen backbone makes of the images: {total:,} views, once "
                "for all trials and studies."
            )
        self.computing = replace(self.computing, now=now, done=done, total=total)
        if done == total and not self.computing.ended:
            self.computing = replace(self.computing, ended=True)
            self.said(f"Features are ready, after {duration_words(now - self.computing.began)}.")
        elif not self.console.is_terminal and now - self.computing.said > _LINE_SECONDS:
            self.computing = replace(self.computing, said=now)
            self.said(self.computing.words())

    def timed(self, fold: FoldTime, frozen: FoldTime | None, groups: int) -> None:
        """Prints how long the search will take, and in the frozen regime."""
        self.said(time_words(fold, frozen, groups, self.total, race=self.study.spec.race))

    def validation_floor(self, score: float) -> None:
        """Prints what the search has to beat."""
        noun = FLOORS[load_method(self.study.spec.job.method.name).task].noun
        self.said(
            f"Floor: {self.title} {score:.4f}, by {noun} without any training (mean over "
            f"{NUM_FOLDS} folds)."
        )

    def groups(self, alive: int, wanted: int) -> None:
        """Keeps the numbers for the display."""
        self.workers = f"{alive} of {wanted} worker groups"

    def epoch(self, number: int, fold: int, record: EpochRecord) -> None:
        """Keeps the epoch for the display and for the pace.

        It comes on another way than the results, so that its fold may have finished before.
        """
        trial = self.trials.get(number)
        if trial is not None and (trial.state != "running" or fold in trial.folds):
            return
        self.epochs[number, fold] = record
        self.pace.epoch(number, fold, record, self._epochs(number))

    def trial(self, record: TrialRecord) -> None:
        """Prints what is new about a trial: finished folds (in a pipe), its end, a new best."""
        before = self.trials.get(record.number)
        self.trials = {**self.trials, record.number: record}
        for fold in sorted(record.folds.keys() - (before.folds.keys() if before else set())):
            self._finish_fold(record, fold)
        if record.state != "running" and (before is None or before.state == "running"):
            self._end_trial(record)

    def _finish_fold(self, trial: TrialRecord, fold: int) -> None:
        self.epochs.pop((trial.number, fold), None)
        self.pace.fold(trial.number, fold)
        if not self.console.is_terminal:
            self.said(
                f"trial {trial.number}  fold {fold}  {self.title} {trial.folds[fold].score:.4f}  "
                f"({duration_words(fold_seconds(trial, fold))})"
            )

    def _end_trial(self, trial: TrialRecord) -> None:
        self.pace.end(trial.number)
        self.epochs = {key: e for key, e in self.epochs.items() if key[0] != trial.number}
        line = f"trial {trial.number}  {state_words(trial)}"
        if trial.score is not None and trial.state == "complete":
            line += f"  {self.title} {score_words(trial)}"
            if self.best is None or trial.score > (self.best.score or 0.0):
                self.best = trial
                line += "  new best"
        self.said(line)

    def _display(self) -> Group:
        """The live part of a terminal, drawn twice a second from another thread."""
        trials = tuple(self.trials.values())
        ended = sum(trial.state != "running" for trial in trials)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            "trials",
            ProgressBar(total=self.total, completed=ended, width=30),
            f"{ended} of {self.total}: {count_words(trials)}",
        )
        lines = [Text(self._pace_words(trials))]
        if self.best is not None:
            best = f"best: trial {self.best.number}, {self.title} {score_words(self.best)}"
            lines.append(Text(best))
            knobs = f"  {knob_words(self.best.knobs)}"
            lines.append(Text(knobs, no_wrap=False, overflow="fold"))
        return Group(bar, *lines, *self._running())

    def _pace_words(self, trials: tuple[TrialRecord, ...]) -> str:
        pace, left = self.pace.folds_per_minute(), self.pace.seconds_left(trials, self.total)
        parts = [self.workers] if self.workers else []
        if self.computing and not self.computing.ended:
            parts.append(self.computing.words())
        elif pace is None or left is None:
            parts.append("no epoch finished yet")
        else:
            parts += [f"{pace:.1f} folds a minute", f"about {duration_words(left)} left"]
        return ", ".join(parts)

    def _epochs(self, number: int) -> int:
        """The most epochs of a trial's folds, which may be a knob."""
        trial = self.trials.get(number)
        return (trial or self.study.spec).job.training.schedule.epochs

    def _running(self) -> list[Text]:
        running = sorted(self.epochs.copy().items())
        lines = []
        for (number, fold), record in running[:_SHOWN_FOLDS]:
            score = ""
            if record.validation:
                score = f"{self.title} {score_of(record.validation, self.objective):.4f}"
            epochs = f"epoch {record.epoch} of {self._epochs(number)}"
            lines.append(Text(f"  trial {number} fold {fold}: {epochs}  {score}"))
        if len(running) > _SHOWN_FOLDS:
            lines.append(Text(f"  and {len(running) - _SHOWN_FOLDS} more folds"))
        return lines


class AttachedProgress(SearchProgress):
    """Shows a search that another process drives.

    Args:
        record: The study as it is found.
        total: How many trials it is to have.
        driver: Who drives it.
    """

    def __init__(self, record: StudyRecord, total: int, driver: str) -> None:
        super().__init__(record, total)
        self.driver = driver

    def __enter__(self) -> Self:
        super().__enter__()
        self.said(f"Driven by {self.driver}.")
        return self

    def _so_far(self) -> str:
        folds = plural(self.study.folds_trained, "finished fold training")
        return f"Recorded so far: {count_words(self.study.trials)}, with {folds}."

    def _parting_words(self) -> str:
        return (
            f"Left {self.study.name}; its search goes on. To see it again: `hsearch attach "
            f"{self.study.name}`; to end it: `hsearch stop {self.study.name}`."
        )

"""What a person sees of a training: a live line on a terminal, plain lines elsewhere."""

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hsearch.cli.counting import PlainLines
from hsearch.methods import load_method
from hsearch.results import EpochRecord, FoldResult, Metrics, score_of, score_title
from hsearch.spec import FoldJob
from hsearch.training.loop import Report
from hsearch.words import FLOORS


class TrainingProgress(Report):
    """Shows a training as it goes.

    Args:
        job: What is trained.
        folder: Where its files go.
        level_names: What the levels of the data are called, coarsest first.
    """

    def __init__(self, job: FoldJob, folder: Path, level_names: Sequence[str] = ()) -> None:
        self.job, self.folder, self.level_names = job, folder, level_names
        self.console = Console(highlight=False, soft_wrap=True, markup=False)
        self.floor_noun = FLOORS[load_method(job.method.name).task].noun
        self.computing: float | None = None
        self.lines = PlainLines()
        self.shown = 0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("starting", total=None)

    def __enter__(self) -> Self:
        job = self.job
        self.console.print(
            f"{job.method.name} on {job.data}, fold {job.fold}, recipe {job.training.recipe}, "
            f"{job.splits} splits, seed {job.seed} -> {self.folder}"
        )
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.bar.stop()
        if kind is KeyboardInterrupt:
            self.console.print(
                f"Stopped after epoch {self.shown}, which is kept in {self.folder}. Run the same "
                "command again to go on."
            )

    def features(self, done: int, total: int) -> None:
        """Moves a bar, and prints a line at the beginning and at the end."""
        if self.computing is None:
            self.computing = time.monotonic()
            self.console.print(
                f"Computing what the frozen backbone makes of the images: {total:,} views, once "
                "for all trainings."
            )
        self.bar.update(self.task, description="features", completed=done, total=total)
        if done == total:
            self.console.print(
                f"Features are ready, after {time.monotonic() - self.computing:.0f} s."
            )
        elif not self.console.is_terminal:
            self.lines("features", done, total)

    def floor(self, folds: Sequence[Metrics]) -> None:
        """Prints what the training has to beat, on its own fold."""
        score = score_of(folds[self.job.fold], self.job.objective)
        self.console.print(
            f"Floor ({self.floor_noun}, no training): "
            f"{score_title(self.job.objective, self.level_names)} {score:.4f}"
        )

    def iteration(self, epoch: int, done: int, total: int) -> None:
        """Moves the bar of the running epoch."""
        name = f"epoch {epoch}/{self.job.training.schedule.epochs}"
        self.bar.update(self.task, description=name, completed=done, total=total)

    def epoch(self, record: EpochRecord) -> None:
        """Prints the line of an epoch."""
        self.shown = record.epoch
        self.console.print(_line(record, self.job, self.level_names))

    def finished(self, result: FoldResult) -> None:
        """Prints the outcome and what to do next."""
        self.bar.stop()
        why = "no improvement" if result.stopped == "patience" else "all epochs done"
        objective = result.job.objective
        before = score_of(result.untrained, objective)
        if warning := _warning(result, before, self.floor_noun):
            self.console.print(f"Warning: {warning}")
        floor = f"floor {score_of(result.floor, objective):.4f}, " if result.floor else ""
        self.console.print(
            f"Done ({why}): validation {score_title(objective, self.level_names)} "
            f"{result.score:.4f} at epoch {result.best_epoch}; {floor}before training "
            f"{before:.4f}.\n"
            f"Result: {self.folder / 'result.json'}\n"
            f"Next:   hsearch evaluate {shlex.quote(str(self.folder))} --on test"
        )


def _warning(result: FoldResult, before: float, floor: str) -> str | None:
    """What has probably gone wrong, if anything."""
    idle = [record.epoch for record in result.history if record.loss == 0]
    if idle:
        return (
            f"the loss was 0 in every step of epoch {idle[0]}: the batches hold no positives or no "
            "negatives for this loss, or none that it still wants to move; see batch.per_class."
        )
    if result.score is not None and result.score < before:
        return (
            "training made the network worse than it began; the learning rates may be too high for "
            "these weights (--set optimizer.lr.backbone=...)."
        )
    if result.floor and result.score is not None:
        least = score_of(result.floor, result.job.objective)
        if result.score < least:
            return (
                f"training has not helped: {floor} score {least:.4f} without any. Train longer, "
                "with lower rates, or in another --regime."
            )
    return None


def _line(record: EpochRecord, job: FoldJob, level_names: Sequence[str]) -> str:
    epochs = job.training.schedule.epochs
    parts = [f"epoch {record.epoch:>{len(str(epochs))}}/{epochs}"]
    if job.training.stages:
        width = max(len(stage.name) for stage in job.stages())
        parts.append(f"{job.stage_of(max(1, record.epoch)).name:{width}}")
    parts.append("before       " if record.loss is None else f"loss {record.loss:8.4f}")
    if record.validation is not None:
        shown = dict.fromkeys((job.objective, "precision_at_1", "cf1"))
        found = [name for name in shown if name in record.validation]
        parts += [
            f"{score_title(m, level_names)} {score_of(record.validation, m):.4f}" for m in found
        ]
    parts.append(f"{record.seconds:5.1f} s")
    if record.images_per_second is not None:
        parts.append(f"{record.images_per_second:6.0f} images/s")
    return "  ".join(parts)

"""Breakpoints: trainings of other processes wait at one until the test lets them go on.

A test that needs a search to be still at work, or a training to be in the midst of an epoch, holds
it there instead of hoping to be faster. `Breakpoint` is the test's side; `install` is that of the
processes that train, be they forked (`tests/processes.py`) or started anew (`tests/startup`).
"""

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hsearch.results import EpochRecord, FoldResult, Metrics
    from hsearch.spec import FoldJob
    from hsearch.training.folder import RunFolder
    from hsearch.training.loop import Report

VARIABLE = "HSEARCH_TEST_BREAKPOINT"
LOOP = "hsearch.training.loop"
LOOK_SECONDS = 0.05


class Breakpoint:
    """A point of a search that no training passes.

    Args:
        folder: Seen by the test and by the processes that train.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def environment(self) -> dict[str, str]:
        """What the processes that train need to have in their environment."""
        return {VARIABLE: str(self.folder)}

    def set(self, trial: int = 0, fold: int = 0, epoch: int = 1, step: int = 0) -> None:
        """Lets trainings wait at this point, or at once if they are further; replaces the last one.

        Points are ordered by trial (or run of a reproduction), then fold, epoch and step.

        Args:
            trial: Its number; 0 for `hsearch train`.
            fold: Its number.
            epoch: The epoch that is not finished, from 1.
            step: Optimiser steps of this epoch that are taken. At 0, which lies between two epochs,
                a training that waits still pauses if it is asked to.
        """
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)
        new = self.folder / "new"
        new.write_text(f"{trial} {fold} {epoch} {step}")
        new.rename(self.folder / "point")

    def clear(self) -> None:
        """Lets all trainings go on."""
        (self.folder / "point").unlink()

    def waiting(self) -> int:
        """Returns how many folds' trainings have come to the point since it was set."""
        point = _read_point(self.folder)
        assert point is not None, "no breakpoint is set"
        return len(list(self.folder.glob(f"{_name(point)}.*")))


def install() -> None:
    """Makes trainings of this process heed the breakpoint that its environment names."""
    assert LOOP not in sys.modules
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Wraps `train_fold` when its module is imported, which takes too long to be done before."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != LOOP:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_wrap(module: ModuleType) -> None:
            execute(module)
            module.train_fold = _heeding(module.train_fold)  # type: ignore[attr-defined]

        spec.loader.exec_module = execute_and_wrap  # type: ignore[method-assign]
        return spec


def _heeding(train_fold: "Callable[..., FoldResult]") -> "Callable[..., FoldResult]":
    def train(job: "FoldJob", report: "Report", folder: "RunFolder") -> "FoldResult":
        if VARIABLE not in os.environ:
            return train_fold(job, report, folder)
        return train_fold(job, _Heeding(job, report, folder), folder)

    return train


class _Heeding:
    """A report that waits at breakpoints, on rank 0; the other ranks wait for rank 0."""

    def __init__(self, job: "FoldJob", report: "Report", folder: "RunFolder") -> None:
        self._report, self._last = report, folder.last
        self._key = (_trial_of(report), job.fold)

    def features(self, done: int, total: int) -> None:
        self._report.features(done, total)

    def floor(self, folds: "Sequence[Metrics]") -> None:
        self._report.floor(folds)

    def iteration(self, epoch: int, done: int, total: int) -> None:
        self._report.iteration(epoch, done, total)
        while self._waits(epoch, done):
            time.sleep(LOOK_SECONDS)

    def epoch(self, record: "EpochRecord") -> None:
        self._report.epoch(record)

    def must_pause(self) -> bool:
        from hsearch.distributed import rank
        from hsearch.training.checkpoint import read_notes

        epoch = len(read_notes(self._last)["history"]) if rank() == 0 else 0
        while not (paused := self._report.must_pause()) and self._waits(epoch, 0):
            time.sleep(LOOK_SECONDS)
        return paused

    def _waits(self, epoch: int, step: int) -> bool:
        from hsearch.distributed import rank

        folder = Path(os.environ[VARIABLE])
        point = _read_point(folder) if rank() == 0 else None
        if point is None or (*self._key, epoch, step) < point:
            return False
        (folder / f"{_name(point)}.{_name(self._key)}").touch()
        return True


def _trial_of(report: Any) -> int:
    """The number of the trial that a worker's report, or the one below it, knows; else 0."""
    while hasattr(report, "_report"):
        report = report._report
    number: int = getattr(report, "key", (0, 0))[0]
    return number


def _read_point(folder: Path) -> tuple[int, ...] | None:
    try:
        return tuple(map(int, (folder / "point").read_text().split()))
    except FileNotFoundError:
        return None


def _name(numbers: tuple[int, ...]) -> str:
    return "-".join(map(str, numbers))

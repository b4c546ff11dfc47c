"""The driver's desk: hands out trials, enters outcomes in the study, and tells who watches."""

import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hsearch.folds import NUM_FOLDS
from hsearch.results import FoldResult
from hsearch.search.diagnosis import diagnose
from hsearch.search.record import TrialRecord
from hsearch.search.study import Study
from hsearch.search.watch import Watch


class Desk:
    """Decides what is trained next, from the study's record alone.

    Args:
        study: The record.
        trials: How many it shall have.
        folder: Of the study's checkpoints.
        watch: Is told of every trial.
        wake: Called after every change of the record.
        concurrency: Returns how many trials may run at once.
    """

    def __init__(
        self,
        study: Study,
        trials: int,
        folder: Path,
        watch: Watch,
        wake: Callable[[], None],
        concurrency: Callable[[], int],
    ) -> None:
        self.study, self.trials, self.folder = study, trials, folder
        self.watch, self.wake, self.concurrency = watch, wake, concurrency
        recorded = study.record().trials
        self.proposed = len(recorded)
        self.running = {t.number: t for t in recorded if t.state == "running"}
        self.unfinished = deque(self.running.values())
        self.diagnosis: str | None = None

    @property
    def folds_ahead(self) -> int:
        """How many folds of a trial may be trained at once: without a race, all."""
        return 1 if self.study.spec.race else NUM_FOLDS

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be handed out."""
        return self.diagnosis is not None or (not self.unfinished and self.proposed >= self.trials)

    def next_trial(self) -> TrialRecord | None:
        """Returns the next trial to train: first those that an earlier driver left, then new ones.

        None while enough trials are running, or when the search is over.
        """
        if self.is_over:
            return None
        if self.unfinished:
            return self.unfinished.popleft()
        if len(self.running) >= self.concurrency():
            return None
        trial = self.study.propose()
        self.proposed += 1
        self.running[trial.number] = trial
        self._tell(trial)
        return trial

    def enter(self, number: int, outcome: dict[str, Any]) -> bool:
        """Records the outcome of a fold.

        Args:
            number: Of the trial.
            outcome: `{"result": FoldResult as JSON}` or `{"failed": reason}`.

        Returns:
            Whether the trial has ended.
        """
        if "failed" in outcome:
            trial = self.study.fail(number, outcome["failed"])
        else:
            result = FoldResult.model_validate_json(outcome["result"])
            trial = self.study.record_fold(number, result)
        self._tell(trial)
        if trial.state == "running":
            return False
        self.running.pop(number, None)
        record = self.study.record()
        self._keep_only(record.best)
        self.diagnosis = self.diagnosis or diagnose(record)
        return True

    def path(self, number: int, fold: int) -> Path:
        """Returns the run folder of a fold."""
        return self.folder / _folder_name(number) / f"fold-{fold}"

    def _keep_only(self, best: TrialRecord | None) -> None:
        """Removes the networks of ended trials other than the best."""
        kept = {
            _folder_name(number) for number in [*self.running, *([best.number] if best else [])]
        }
        for path in self.folder.glob("trial-*"):
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def _tell(self, trial: TrialRecord) -> None:
        self.watch.trial(trial)
        self.wake()


def _folder_name(number: int) -> str:
    return f"trial-{number:04d}"

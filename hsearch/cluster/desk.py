"""The driver's desk: hands out trials, enters outcomes in the study, and tells who watches."""

import json
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hsearch.addresses import Place
from hsearch.data.places import children, remove
from hsearch.errors import ClusterError, DatasetError, HsearchError
from hsearch.folds import NUM_FOLDS
from hsearch.results import FoldResult
from hsearch.search.diagnosis import diagnose
from hsearch.search.record import TrialRecord
from hsearch.search.study import Study
from hsearch.search.watch import Watch
from hsearch.training.folder import fold_folder, trial_name


class Desk:
    """Decides what is trained next, from the study's record alone.

    Args:
        study: The record.
        trials: How many it shall have.
        folder: Of the study's checkpoints.
        watch: Is told of every trial.
        wake: Called after every change of the record.
        concurrency: Returns how many trials may run at once.

    Attributes:
        trouble: Why the search must end before its time.
    """

    def __init__(
        self,
        study: Study,
        trials: int,
        folder: Place,
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
        self.trouble: HsearchError | None = None
        self._stopped = False
        self.best = study.best
        self._remover = ThreadPoolExecutor(1)  # a bucket may be slow, and the driver must not be
        self._left: DatasetError | None = None

    @property
    def folds_ahead(self) -> int:
        """How many folds of a trial may be trained at once: without a race, all."""
        return 1 if self.study.spec.race else NUM_FOLDS

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be handed out."""
        if self.trouble is not None or self._stopped:
            return True
        return not self.unfinished and self.proposed >= self.trials

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
        try:
            trial = self.study.propose()
        except HsearchError as error:
            self.trouble = error
            return None
        self.proposed += 1
        self.running[trial.number] = trial
        self._tell(trial)
        return trial

    def enter(self, number: int, outcome: dict[str, Any]) -> bool:
        """Records the outcome of a fold.

        Args:
            number: Of the trial.
            outcome: `{"result": FoldResult as JSON}`, `{"failed": reason}` for what lies in the
                configuration, or `{"broken": sentence}` for what does not and ends the search.

        Returns:
            Whether nothing more of the trial is wanted.
        """
        try:
            trial = self._recorded(number, outcome)
        except HsearchError as error:  # kept for the end: Tune would wrap it
            self.trouble = error
            return True
        self._tell(trial)
        if trial.state == "running":
            return False
        self.running.pop(number, None)
        self._remove_beaten(trial)
        if trial.state == "failed" and (diagnosis := diagnose(self.study.record())) is not None:
            self.trouble = HsearchError(diagnosis)
        return True

    def stop(self) -> None:
        """Hands out nothing more; what is running stays so in the record."""
        self._stopped = True

    def close(self) -> None:
        """Removes all networks but the best trial's and those of trials that may go on."""
        self._remover.shutdown()
        self._left = None
        best = {self.study.best.number} if self.study.best else set()
        kept = {trial_name(number) for number in {*self.running, *best}}
        trials = {trial_name(t.number): t.number for t in self.study.record().trials}
        try:
            there = children(self.folder)
        except DatasetError as error:
            there, self._left = [], error
        for name in trials.keys() & set(there) - kept:
            self._remove_networks(trials[name])
        if self._left is not None:
            self.watch.said(f"Networks that nobody needs are still kept: {self._left}")

    def path(self, number: int, fold: int) -> Place:
        """Returns the run folder of a fold."""
        return fold_folder(self.folder, number, fold)

    def _recorded(self, number: int, outcome: dict[str, Any]) -> TrialRecord:
        if "broken" in outcome:
            raise ClusterError(outcome["broken"])
        if "failed" in outcome:
            return self.study.fail(number, outcome["failed"])
        return self.study.record_fold(number, FoldResult.from_dict(json.loads(outcome["result"])))

    def _remove_beaten(self, ended: TrialRecord) -> None:
        """Removes the networks of a trial that has ended, or of the best one that it has beaten.

        Without a race a trial may end while other folds of it are in training; `close` sees to it.
        """
        before, self.best = self.best, self.study.best
        beaten = before if self.best and self.best.number == ended.number else ended
        if beaten and (len(beaten.folds) == NUM_FOLDS or self.folds_ahead == 1):
            self._remover.submit(self._remove_networks, beaten.number)

    def _remove_networks(self, number: int) -> None:
        try:
            remove(self.folder / trial_name(number))
        except DatasetError as error:  # they go at the end of the search, or of the next one
            self._left = error

    def _tell(self, trial: TrialRecord) -> None:
        self.watch.trial(trial)
        self.wake()

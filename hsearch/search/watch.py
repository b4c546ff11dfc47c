"""Who watches a search: the one interface between a search and what people see of it."""

from hsearch.results import EpochRecord, FoldTime
from hsearch.search.record import TrialRecord


class Watch:
    """Receives the progress of a search; all methods do nothing until overridden.

    The search calls them from one thread, the driver's.
    """

    def said(self, sentence: str) -> None:
        """Called with whatever is worth a line: arithmetic, groups placed or lost, waiting."""

    def trial(self, record: TrialRecord) -> None:
        """Called when a trial was proposed, got a fold, or ended; state and folds say which."""

    def epoch(self, number: int, fold: int, record: EpochRecord) -> None:
        """Called after every epoch of a running fold of trial `number`."""

    def features(self, done: int, total: int) -> None:
        """Called while features are computed, with the views that all groups have done."""

    def validation_floor(self, score: float) -> None:
        """Called once, with the mean over the folds of what needs no training."""

    def timed(self, fold: FoldTime, frozen: FoldTime | None, groups: int) -> None:
        """Called once a few batches were timed.

        Args:
            fold: How long a training of a fold takes.
            frozen: The same in the regime `frozen`; None for a search in that regime.
            groups: Folds that are trained at once.
        """

    def groups(self, alive: int, wanted: int) -> None:
        """Called when the number of worker groups changes."""

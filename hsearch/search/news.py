"""News of a running search, kept in its record so that it can be watched from anywhere.

The record tells of trials and finished folds. What a person at the driver's terminal sees beyond
them stands in the study's attribute `news`, which the lease writes at its beats: a search never
waits for it, and a storage that does not answer for a while only delays it.
"""

import threading
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pydantic import Field

from hsearch.errors import HsearchError
from hsearch.results import EpochRecord, FoldTime
from hsearch.search.lease import Attributes
from hsearch.search.record import TrialRecord
from hsearch.search.watch import Watch
from hsearch.spec import Spec

if TYPE_CHECKING:
    from hsearch.search.study import Study

MOST_SENTENCES = 20


class RunningFold(Spec):
    """The last epoch of a fold in training.

    Attributes:
        trial: Its number.
        fold: Its number.
        last: The epoch, of whose validation only the objective is kept.
    """

    trial: int
    fold: int
    last: EpochRecord


class News(Spec):
    """What is not in the record of a search otherwise.

    Attributes:
        trials: How many the study shall have.
        alive: Worker groups at work.
        wanted: Worker groups for which there is room.
        running: Folds in training that have finished an epoch.
        sentences: The last that were said, by number.
    """

    trials: int
    alive: int = 0
    wanted: int = 0
    running: tuple[RunningFold, ...] = ()
    sentences: dict[int, str] = Field(default_factory=dict)


class Newsroom(Watch):
    """Passes on what it is told about a search, and keeps the news of it in the record.

    Args:
        study: The record.
        trials: How many it shall have.
        watch: To whom everything is passed on.
        lost: Set when another driver has the study, whose news are the study's from then on.
    """

    def __init__(self, study: "Study", trials: int, watch: Watch, lost: threading.Event) -> None:
        self._study, self._trials, self._watch, self._lost = study, trials, watch, lost
        self._objective = study.spec.job.objective
        self._groups = (0, 0)
        self._records: dict[int, TrialRecord] = {}
        self._running: dict[tuple[int, int], EpochRecord] = {}
        self._sentences: deque[tuple[int, str]] = deque(maxlen=MOST_SENTENCES)
        self._said = 0
        self._published: News | None = None
        self._lock = threading.Lock()  # the search tells from one thread, the lease publishes
        self._publishing = threading.Lock()  # and the search does at its end

    def __enter__(self) -> Self:
        self.publish()  # what an earlier driver has left there is old
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, HsearchError):
            self._note(f"The search has ended: {error}")
        self._running = {}
        with suppress(HsearchError):
            self.publish()

    def said(self, sentence: str) -> None:
        """Numbers the sentence."""
        self._watch.said(sentence)
        self._note(sentence)

    def trial(self, record: TrialRecord) -> None:
        """Forgets the epochs of folds that are no longer in training."""
        self._watch.trial(record)
        with self._lock:
            self._records[record.number] = record
            self._running = {k: e for k, e in self._running.items() if self._is_running(*k)}

    def epoch(self, number: int, fold: int, record: EpochRecord) -> None:
        """Keeps the epoch, with no more of its metrics than the objective."""
        self._watch.epoch(number, fold, record)
        found = record.validation and {self._objective: record.validation[self._objective]}
        short = record.model_copy(update={"validation": found, "lr": {}})
        with self._lock:
            if self._is_running(number, fold):  # else its result came first, on another way
                self._running[number, fold] = short

    def features(self, done: int, total: int) -> None:
        """Is for those who look on now."""
        self._watch.features(done, total)

    def timed(self, fold: FoldTime, frozen: FoldTime | None, groups: int) -> None:
        """Is for those who look on now."""
        self._watch.timed(fold, frozen, groups)

    def validation_floor(self, score: float) -> None:
        """Is in the results of all folds."""
        self._watch.validation_floor(score)

    def groups(self, alive: int, wanted: int) -> None:
        """Keeps the numbers."""
        self._watch.groups(alive, wanted)
        self._groups = alive, wanted

    def publish(self) -> None:
        """Writes the news into the record if there are any; may be called from another thread."""
        with self._publishing:
            news = self._news()
            if news != self._published and not self._lost.is_set():
                self._study.set_attribute("news", news.to_dict())
                self._published = news

    def _is_running(self, number: int, fold: int) -> bool:
        trial = self._records.get(number)
        return trial is None or (trial.state == "running" and fold not in trial.folds)

    def _note(self, sentence: str) -> None:
        with self._lock:
            self._sentences.append((self._said, sentence))
            self._said += 1

    def _news(self) -> News:
        with self._lock:
            return News(
                trials=self._trials,
                alive=self._groups[0],
                wanted=self._groups[1],
                running=tuple(
                    RunningFold(trial=number, fold=fold, last=record)
                    for (number, fold), record in sorted(self._running.items())
                ),
                sentences=dict(self._sentences),
            )


def read_news(study: Attributes) -> News | None:
    """Returns the last news of a search; None where no driver has left any."""
    recorded = study.attribute("news")
    return None if recorded is None else News.from_dict(recorded)

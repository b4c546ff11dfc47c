"""Looking on at a search from its record alone, as somebody does who did not start it."""

from typing import Literal

from hsearch.errors import HsearchError
from hsearch.search.driver import Driver
from hsearch.search.lease import Pulse, StopRequest, read_driver, stop_request
from hsearch.search.news import News, read_news
from hsearch.search.record import StudyRecord, TrialRecord
from hsearch.search.study import Study
from hsearch.search.watch import Watch

Driven = Literal["driven", "let go", "dead"]


class Onlooker:
    """Tells a watch what is new of a search; what was there at the beginning is not told.

    Args:
        study: Opened for reading.
        driver: Who drives it at the beginning.

    Attributes:
        record: The study as it was when it was last looked at.
        news: The same of its news; None where there are none.
    """

    def __init__(self, study: Study, driver: Driver) -> None:
        self.driver = driver
        self._study, self._pulse = study, Pulse()
        self.record, self.news = study.record(), read_news(study)
        self._told = {trial.number: _growth(trial) for trial in self.record.trials}
        self._epochs: dict[tuple[int, int], int] = {}
        self._said = max(self.news.sentences, default=-1) if self.news else -1

    @property
    def goal(self) -> int:
        """How many trials the study shall have, as far as its driver has told."""
        return self.news.trials if self.news else max(1, len(self.record.trials))

    def look(self, watch: Watch) -> Driven:
        """Looks at the study once more, tells what is new, and returns what became of the driver.

        A storage that does not answer tells nothing new.
        """
        try:
            driver = read_driver(self._study)  # before the record, so that its last words are in it
            self.record, self.news = self._study.record(), read_news(self._study) or self.news
        except HsearchError:
            self._pulse.forget()
            return "driven"
        self._tell_news(self.news, watch)
        self._tell_trials(self.record, watch)
        if driver is None or driver.token != self.driver.token:
            return "let go"
        return "driven" if self._pulse.beats(driver) else "dead"

    def stopped_by(self) -> StopRequest | None:
        """Returns the request by which the driver was stopped, if it was."""
        return stop_request(self._study, self.driver)

    def _tell_news(self, news: News | None, watch: Watch) -> None:
        if news is None:
            return
        for number, sentence in sorted(news.sentences.items()):
            if number > self._said:
                watch.said(sentence)
                self._said = number
        watch.groups(news.alive, news.wanted)
        for running in news.running:
            key = running.trial, running.fold
            if self._epochs.get(key) != running.last.epoch:
                self._epochs[key] = running.last.epoch
                watch.epoch(*key, running.last)

    def _tell_trials(self, record: StudyRecord, watch: Watch) -> None:
        for trial in record.trials:
            if self._told.get(trial.number) != _growth(trial):
                self._told[trial.number] = _growth(trial)
                watch.trial(trial)


def _growth(trial: TrialRecord) -> tuple[str, int]:
    """All that can change of a trial."""
    return trial.state, len(trial.folds)

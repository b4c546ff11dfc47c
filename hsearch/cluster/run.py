"""A search on Ray: a crew, and Tune over the study."""

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsearch.addresses import Place
from hsearch.cluster.crew import Crew, check_held
from hsearch.cluster.desk import Desk
from hsearch.cluster.options import ClusterOptions, first_plan
from hsearch.cluster.preflight import concurrent_trials
from hsearch.cluster.session import ray_session
from hsearch.data.places import absolute, read_or_write
from hsearch.errors import ConfigError
from hsearch.search.record import StudyRecord
from hsearch.search.stored import StoredStudy
from hsearch.search.study import Study
from hsearch.search.watch import Watch
from hsearch.tracking.tracker import Tracker

if TYPE_CHECKING:
    from hsearch.training.kept import Train


TIME_IS_UP = "time_is_up"
"""Attribute of a study: the hours after which its last search ended; null if it ended otherwise."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions(ClusterOptions):
    """How a search uses the cluster.

    Attributes:
        trials: How many trials the study shall have.
        hours: After how long the search ends gracefully; None for as long as it takes.
    """

    trials: int
    hours: float | None = None


def run_search(
    study: Study,
    tracker: Tracker | None,
    options: SearchOptions,
    watch: Watch,
    halted: threading.Event | None = None,
    stopping: threading.Event | None = None,
    train: "Train | None" = None,
) -> StudyRecord:
    """Searches until the study has its trials or is stopped, and returns the record.

    Args:
        study: The record, opened for searching; the caller holds its lease.
        tracker: Told to look at the record after every change.
        options: How the cluster is used.
        watch: Sees the progress; all calls come from this thread.
        halted: Ends the search when set, as when the lease was lost.
        stopping: Lets the search wind down when set: no new trial, running epochs to their end.
        train: What benchmarks put in the place of a training, in a worker.
    """
    halted, stopping = halted or threading.Event(), stopping or threading.Event()
    folder = absolute(options.folder) / study.name
    wake = tracker.wake if tracker else lambda: None
    study.set_attribute(TIME_IS_UP, None)
    with _time_limit(options.hours, study, stopping), ray_session(options.address) as session:
        plan = first_plan(options, session, watch.said, halted, stopping)
        if plan is None:
            check_held(study.name, halted)
            return study.record()
        crew = Crew(plan, options, watch, folder, session, halted)
        desk = Desk(study, options.trials, folder, watch, wake, lambda: _concurrency(crew, desk))
        claim_folder(folder, study)
        with crew.working(train):
            from hsearch.cluster.tuning import run_tune

            run_tune(desk, crew, stopping)
            crew.trouble = crew.trouble or desk.trouble
            crew.check_end(study.name)
        desk.close()
    return study.record()


@contextmanager
def _time_limit(hours: float | None, study: Study, stopping: threading.Event) -> Iterator[None]:
    """Lets the search wind down when its time is up, and notes in the record that it was."""
    if hours is None:
        yield
        return
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        stopping.set()

    timer = threading.Timer(3600 * hours, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if expired.is_set():
            study.set_attribute(TIME_IS_UP, hours)


def _concurrency(crew: Crew, desk: Desk) -> int:
    """How many trials keep the groups busy; one group is exactly one trial after the other."""
    return concurrent_trials(crew.size, desk.folds_ahead)


def claim_folder(folder: Place, study: StoredStudy) -> None:
    """Makes the folder of a study; one of another study of the same name is refused."""
    identity = study.attribute("id")
    if identity is None:
        identity = secrets.token_hex(8)
        study.set_attribute("id", identity)
    if read_or_write(folder, ".study", str(identity).encode()).decode() != identity:
        raise ConfigError(
            f"{folder} holds the networks of another study of this name, from another storage; "
            "give another folder with `--out` or another name with `--study`, or remove it."
        )

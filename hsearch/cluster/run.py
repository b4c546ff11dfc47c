"""A search on Ray: session, board, pool and Tune put together for one study."""

import os
import queue
import secrets
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsearch.cluster.desk import Desk
from hsearch.cluster.preflight import (
    concurrent_trials,
    groups_with_room,
    plan_groups,
    this_machine,
)
from hsearch.cluster.session import Session, ray_session
from hsearch.errors import ClusterError, ConfigError
from hsearch.files import write_whole
from hsearch.results import EpochRecord
from hsearch.search.record import StudyRecord
from hsearch.search.study import Study
from hsearch.search.watch import Watch
from hsearch.tracking.tracker import Tracker
from hsearch.training.loop import train_fold
from hsearch.words import plural

if TYPE_CHECKING:
    from hsearch.cluster.worker import Train

TEND_SECONDS = 5.0
LISTEN_SECONDS = 1.0


@dataclass(frozen=True)
class SearchOptions:
    """How a search uses the cluster.

    Attributes:
        trials: How many trials the study shall have.
        address: Of a running Ray cluster; None for one on this machine.
        workers_per_fold: DDP ranks of one fold training.
        cpus_per_worker: Of one rank; None for 1, or a GPU's share of its node.
        groups: Most fold trainings at once; None for as many as fit.
        folder: Of checkpoints, seen by all nodes.
    """

    trials: int
    address: str | None = None
    workers_per_fold: int = 1
    cpus_per_worker: int | None = None
    groups: int | None = None
    folder: Path = Path("studies")


def run_search(
    study: Study,
    tracker: Tracker | None,
    options: SearchOptions,
    watch: Watch,
    halted: threading.Event | None = None,
    train: "Train" = train_fold,
) -> StudyRecord:
    """Searches until the study has its trials, and returns the record.

    Args:
        study: The record, opened for searching; the caller holds its lease.
        tracker: Told to look at the record after every change.
        options: How the cluster is used.
        watch: Sees the progress; all calls come from this thread.
        halted: Ends the search when set, as when the lease was lost.
        train: Trains one fold, in a worker; benchmarks put something else there.
    """
    folder = options.folder.resolve() / study.name
    with ray_session(options.address, folder) as session:
        search = _Search(study, tracker, options, watch, folder, session, halted)
        _claim(folder, study)
        search.run(train)
    return study.record()


def check_options(options: SearchOptions) -> None:
    """Raises if a search could never be placed or keep its checkpoints; needs no Ray."""
    try:
        with tempfile.TemporaryDirectory(dir=_nearest_folder(options.folder)):
            pass
    except OSError as error:
        raise ConfigError(
            f"`--out` must be a folder that can be written to, but {options.folder} gave: "
            f"{error.strerror}; name another one."
        ) from None
    if options.address is None:
        plan_groups(
            [this_machine()], options.workers_per_fold, options.cpus_per_worker, options.groups
        )


def _nearest_folder(path: Path) -> Path:
    """Returns the path, or as much of it as exists."""
    return path if path.exists() or path == path.parent else _nearest_folder(path.parent)


def _claim(folder: Path, study: Study) -> None:
    """Makes the folder of a study; one of another study of the same name is refused."""
    identity = study.attribute("id")
    if identity is None:
        identity = secrets.token_hex(8)
        study.set_attribute("id", identity)
    mark = folder / ".study"
    folder.mkdir(parents=True, exist_ok=True)
    if not mark.exists():
        write_whole(mark, str(identity).encode())
    elif mark.read_text(encoding="utf-8") != identity:
        raise ConfigError(
            f"{folder} holds the networks of another study of this name, from another storage; "
            "give another folder with `--out` or another name with `--study`, or remove it."
        )


class _Search:
    """One search under way."""

    def __init__(
        self,
        study: Study,
        tracker: Tracker | None,
        options: SearchOptions,
        watch: Watch,
        folder: Path,
        session: Session,
        halted: threading.Event | None,
    ) -> None:
        self.options, self.watch, self.folder = options, watch, folder
        self.session, self.lost = session, halted or threading.Event()
        self.plan = plan_groups(
            session.nodes(), options.workers_per_fold, options.cpus_per_worker, options.groups
        )
        watch.said(self.plan.arithmetic)
        self.alive, self.wanted = 0, self.plan.groups
        wake = tracker.wake if tracker else lambda: None
        self.desk = Desk(study, options.trials, folder, watch, wake, self.concurrency)
        self.events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.tended = 0.0
        self.over = threading.Event()

    def room(self) -> int:
        """How many groups the cluster holds now."""
        return groups_with_room(self.session.nodes(), self.plan, self.options.groups)

    def concurrency(self) -> int:
        """How many trials keep the groups busy; one group is exactly one trial after the other."""
        return concurrent_trials(max(self.alive, self.wanted, 1), self.desk.folds_ahead)

    def run(self, train: "Train") -> None:
        """Runs the search to its end."""
        import ray
        from ray import cloudpickle

        from hsearch.cluster.board import LIGHT, Board
        from hsearch.cluster.pool import Pool
        from hsearch.cluster.tuning import run_tune

        name = f"board-{secrets.token_hex(4)}"
        actor = ray.remote(num_cpus=0, resources=LIGHT, max_concurrency=10_000)(Board)
        self.board = actor.options(name=name).remote()
        scratch = self.session.scratch
        config = {
            "threads": self.plan.cpus,
            "folder": str(self.folder),
            "data": os.environ.get("HSEARCH_DATA"),
            "train": cloudpickle.dumps(train),
        }
        self.pool = Pool(self.board, name, self.plan, self.room, config, scratch, self.watch.said)
        listener = threading.Thread(target=self._listen, daemon=True)
        listener.start()
        self._ask_for(self.options.groups or 0)
        try:
            self.every_step()
            run_tune(self.desk, self.board, name, scratch, self.every_step, self.is_halted)
            self._check_end()
            self.pool.close()
            self.desk.close()
        finally:  # nothing may speak to Ray any more when the session ends
            self.over.set()
            self.pool.abandon()
            listener.join(2 * LISTEN_SECONDS)
            self._ask_for(0)

    def _ask_for(self, groups: int) -> None:
        """Asks a running cluster to grow to so many groups."""
        if self.options.address is not None and self.options.groups:
            self.session.ask_for(groups * self.plan.workers, self.plan.resources)

    def is_halted(self) -> bool:
        """Whether the search must end before its time."""
        return self.lost.is_set() or self.desk.trouble is not None

    def every_step(self) -> None:
        """Tends the pool every few seconds and passes on what the board told."""
        before = self.alive, self.wanted
        while not self.events.empty():
            self._pass_on(self.events.get())
        if time.monotonic() - self.tended > TEND_SECONDS:
            self.tended = time.monotonic()
            self.board.look.remote()
            try:
                self.pool.tend(self.alive)
            except ClusterError as error:  # kept for the end: Tune would wrap it
                self.desk.trouble = error
            self.wanted = self.pool.wanted
        if (self.alive, self.wanted) != before:
            self._tell_groups()

    def _tell_groups(self) -> None:
        groups = plural(self.alive, "worker group")
        waiting = "" if self.wanted else "; waiting for a machine"
        self.watch.said(f"{groups} at work, room for {self.wanted}{waiting}.")
        self.watch.groups(self.alive, self.wanted)

    def _pass_on(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "epoch":
                number, fold = event["key"]
                self.watch.epoch(number, fold, EpochRecord.model_validate_json(event["record"]))
            case "group":
                self.alive = event["alive"]
            case "retry":
                number, fold = event["key"]
                self.watch.said(
                    f"A worker was lost while training fold {fold} of trial {number}; the fold "
                    "goes on from its last epoch."
                )
            case "warning":
                self.watch.said(event["sentence"])
            case "trouble":
                self.desk.trouble = ClusterError(event["sentence"])

    def _listen(self) -> None:
        import ray

        try:
            while not self.over.is_set():
                for event in ray.get(self.board.events.remote(LISTEN_SECONDS)):
                    self.events.put(event)
        except ray.exceptions.RayError:
            lost = "The process that hands out jobs was lost; run the same command again to go on."
            self.events.put({"event": "trouble", "sentence": lost})

    def _check_end(self) -> None:
        """Raises if the search has ended before its time."""
        if self.lost.is_set():
            raise ClusterError(
                f"Another driver has taken over study {self.desk.study.name}; this one ends."
            )
        if self.desk.trouble is not None:
            raise self.desk.trouble

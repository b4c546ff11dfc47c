"""A search on Ray: session, board, pool and Tune put together for one study."""

import os
import queue
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsearch.cluster.desk import Desk
from hsearch.cluster.preflight import Node, Plan, concurrent_trials, plan_groups
from hsearch.cluster.session import Session, ray_session
from hsearch.errors import ClusterError
from hsearch.results import EpochRecord
from hsearch.search.record import StudyRecord
from hsearch.search.study import Study
from hsearch.search.watch import Watch
from hsearch.tracking.tracker import Tracker
from hsearch.training.loop import train_fold

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
    folder.mkdir(parents=True, exist_ok=True)
    with ray_session(options.address, folder) as session:
        search = _Search(study, tracker, options, watch, folder, session, halted)
        search.run(train)
    return study.record()


def check_this_machine(options: SearchOptions) -> None:
    """Raises if a search without a cluster could never be placed; needs no Ray."""
    if options.address is None:
        import torch

        here = Node(len(os.sched_getaffinity(0)), torch.cuda.device_count())
        plan_groups([here], options.workers_per_fold, options.cpus_per_worker, options.groups)


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
        self.study, self.options, self.watch = study, options, watch
        self.session, self.lost = session, halted or threading.Event()
        plan = self.plan()
        watch.said(plan.arithmetic)
        self.wanted = plan.groups
        wake = tracker.wake if tracker else lambda: None
        self.desk = Desk(study, options.trials, folder, watch, wake, self.concurrency)
        self.alive = 0
        self.events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.tended = 0.0
        self.over = threading.Event()

    def plan(self) -> Plan:
        """How the cluster as it is now is used."""
        o = self.options
        return plan_groups(self.session.nodes(), o.workers_per_fold, o.cpus_per_worker, o.groups)

    def concurrency(self) -> int:
        """How many trials keep the groups busy; one group is exactly one trial after the other."""
        return concurrent_trials(max(self.alive, self.wanted), self.desk.folds_ahead)

    def run(self, train: "Train") -> None:
        """Runs the search to its end."""
        import ray

        from hsearch.cluster.board import Board
        from hsearch.cluster.pool import Pool
        from hsearch.cluster.tuning import run_tune

        name = f"board-{secrets.token_hex(4)}"
        actor = ray.remote(num_cpus=0, max_concurrency=10_000)(Board)
        self.board = board = actor.options(name=name).remote()
        scratch = self.session.scratch
        self.pool = Pool(board, name, self.plan, train, scratch, self.watch.said)
        listener = threading.Thread(target=self._listen, args=(board,), daemon=True)
        try:
            self.every_step()
            listener.start()
            run_tune(self.desk, board, name, scratch, self.every_step, self.is_halted)
            self._check_end()
            self.pool.close()
        finally:  # nothing may speak to Ray any more when the session ends
            self.over.set()
            self.pool.abandon()
            if listener.ident is not None:
                listener.join(2 * LISTEN_SECONDS)

    def is_halted(self) -> bool:
        """Whether the search must end before its time."""
        return self.lost.is_set() or self.desk.diagnosis is not None

    def every_step(self) -> None:
        """Tends the pool every few seconds and passes on what the board told."""
        before = self.alive
        while not self.events.empty():
            self._pass_on(self.events.get())
        if self.alive != before:
            groups = "1 worker group" if self.alive == 1 else f"{self.alive} worker groups"
            self.watch.said(f"{groups} at work, {self.wanted} wanted.")
            self.watch.groups(self.alive, self.wanted)
        if time.monotonic() - self.tended > TEND_SECONDS:
            self.tended = time.monotonic()
            self.board.look.remote()
            self.pool.tend(self.alive)
            if self.pool.wanted != self.wanted:
                self.wanted = self.pool.wanted
                self.watch.groups(self.alive, self.wanted)

    def _pass_on(self, event: dict[str, Any]) -> None:
        if event["event"] == "epoch":
            number, fold = event["key"]
            self.watch.epoch(number, fold, EpochRecord.model_validate_json(event["record"]))
        elif event["event"] == "group":
            self.alive = event["alive"]
        else:
            number, fold = event["key"]
            self.watch.said(
                f"A worker was lost while training fold {fold} of trial {number}; the fold goes on "
                "from its last epoch."
            )

    def _listen(self, board: Any) -> None:  # noqa: ANN401 (an actor handle)
        import ray

        try:
            while not self.over.is_set():
                for event in ray.get(board.events.remote(LISTEN_SECONDS)):
                    self.events.put(event)
        except ray.exceptions.RayError:
            return  # the search is over

    def _check_end(self) -> None:
        """Raises if the search has ended before its time."""
        if self.lost.is_set():
            raise ClusterError(
                f"Another driver has taken over study {self.study.name}; this one ends."
            )
        if self.desk.diagnosis is not None:
            raise ClusterError(self.desk.diagnosis)
        if self.desk.running:
            numbers = ", ".join(map(str, sorted(self.desk.running)))
            raise ClusterError(
                f"Ray gave up following trial {numbers}; run the same command again to go on."
            )

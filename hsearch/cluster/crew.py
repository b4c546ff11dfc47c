"""The crew: session, board and pool put together, so that fold jobs can be trained on Ray."""

import os
import queue
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hsearch.addresses import Place, shared_place
from hsearch.cluster.options import ClusterOptions
from hsearch.cluster.preflight import Plan, groups_with_room, hosts_of
from hsearch.cluster.session import Session
from hsearch.cluster.version import code_version
from hsearch.data.places import absolute
from hsearch.errors import ClusterError, HsearchError
from hsearch.results import EpochRecord, FoldTime
from hsearch.search.watch import Watch
from hsearch.training.pretrained import weights_place
from hsearch.words import plural

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from hsearch.cluster.pool import Room
    from hsearch.training.kept import Train

TEND_SECONDS = 5.0
LISTEN_SECONDS = 1.0
PAUSE_SECONDS = 120.0
"""How long a stop waits for running epochs to end; longer where epochs have taken longer."""
BOARD_LOST = "The process that hands out jobs was lost; run the same command again to go on."


def _passed_on() -> dict[str, str]:
    """Returns what workers take over from the environment of the driver; none of it is secret."""
    names = ("HSEARCH_DATA", "HSEARCH_COPIES_GB")
    found = {name: os.environ[name] for name in names if name in os.environ}
    places = {"HSEARCH_SHARED": shared_place(), "HSEARCH_WEIGHTS": weights_place()}
    return found | {name: str(absolute(place)) for name, place in places.items() if place}


def check_held(name: str, lost: threading.Event) -> None:
    """Raises if the lease of the study `name` was lost."""
    if lost.is_set():
        raise ClusterError(f"Another driver has taken over study {name}; this one ends.")


class Crew:
    """Worker groups that take jobs from a board, tended from the driver's one thread.

    Args:
        plan: The shape of a group.
        options: How the cluster is used.
        watch: Sees the progress; all calls come from the driver's thread.
        folder: Of the study's run folders: an address, or a folder that all nodes see.
        session: With Ray.
        halted: Ends the work when set, as when the lease was lost.
        noun: What the first numbers of the board's keys count.
        must_share: Whether every machine must see the folder, as where several folds' networks are
            used together.

    Attributes:
        board: The actor to hang jobs on, and its `name`.
        trouble: Why the work must end before its time.
    """

    def __init__(
        self,
        plan: Plan,
        options: ClusterOptions,
        watch: Watch,
        folder: Place,
        session: Session,
        halted: threading.Event,
        *,
        noun: str = "trial",
        must_share: bool = False,
    ) -> None:
        self.noun, self.must_share = noun, must_share
        self.options, self.watch, self.folder = options, watch, folder
        self.session, self.lost, self.plan = session, halted, plan
        watch.said(plan.arithmetic)
        self.alive, self.wanted = 0, self.plan.groups
        self._leaving: list[int] = []
        self._longest_epoch = 0.0
        self._paused_by: float | None = None
        self.trouble: HsearchError | None = None
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._tended = 0.0
        self._time_said = noun != "trial"
        self._floor_said = noun != "trial"  # a reproduction has the floor of the test images
        self._over = threading.Event()

    @property
    def size(self) -> int:
        """How many jobs are trained at once."""
        return max(self.alive, self.wanted, 1)

    @contextmanager
    def working(self, train: "Train | None" = None) -> Iterator[None]:
        """Keeps the groups at work during the context; those that are idle go home at its end.

        Args:
            train: Trains one fold, in a worker; `train_fold` if None, which only workers import.
        """
        import ray
        from ray import cloudpickle

        from hsearch.cluster.board import Board, light
        from hsearch.cluster.pool import Pool

        self.name = f"board-{secrets.token_hex(4)}"
        actor = ray.remote(num_cpus=0, resources=light(), max_concurrency=10_000)(Board)
        self.board: ActorHandle = actor.options(name=self.name).remote()
        config = {
            "threads": self.plan.cpus,
            "folder": str(self.folder),
            "must_share": self.must_share,
            "environment": _passed_on(),
            "train": cloudpickle.dumps(train),
            "version": code_version(),
        }
        scratch, said = self.session.scratch, self.watch.said
        self._pool = Pool(self.board, self.name, self.plan, self._room, config, scratch, said)
        listener = threading.Thread(target=self._listen, daemon=True)
        listener.start()
        if self.options.address is not None and self.options.groups:
            self.session.ask_for(self.options.groups * self.plan.workers, self.plan.resources)
        try:
            self.every_step()
            yield
            if not self._pool.close():
                self.session.break_off()
        finally:  # nothing may speak to Ray any more when the session ends
            self._over.set()
            self._pool.abandon()
            listener.join(2 * LISTEN_SECONDS)

    def every_step(self) -> None:
        """Tends the pool every few seconds and passes on what the board told."""
        before = self.alive, self.wanted
        while not self._events.empty():
            self._pass_on(self._events.get())
        if time.monotonic() - self._tended > TEND_SECONDS:
            self._tended = time.monotonic()
            self.board.look.remote()
            try:
                if self._paused_by is None:
                    self._pool.tend(self.alive, self._leaving)
            except ClusterError as error:  # kept for the end: Tune would wrap it
                self.trouble = error
            self.wanted = self._pool.wanted
        if (self.alive, self.wanted) != before:
            self._tell_groups()

    def pause(self) -> None:
        """Lets every group go home after the epoch that it is in; then, `is_halted`."""
        if self._paused_by is None:
            self._paused_by = time.monotonic() + max(PAUSE_SECONDS, 2 * self._longest_epoch)
            self.watch.said("Asked to stop: folds in training end after the epoch they are in.")
            self.board.close.remote(after_epoch=True)

    def is_halted(self) -> bool:
        """Whether the work must end before its time."""
        if self._paused_by is not None and (not self.alive or time.monotonic() > self._paused_by):
            return True
        return self.lost.is_set() or self.trouble is not None

    def check_end(self, name: str) -> None:
        """Raises if the work on the study `name` has ended before its time."""
        check_held(name, self.lost)
        if self.trouble is not None:
            raise self.trouble

    def _room(self) -> "Room":
        """Where the cluster holds groups now; those elsewhere are asked to leave."""
        from hsearch.cluster.pool import Room

        nodes = self.session.nodes()
        hosts = {node.id for node in hosts_of(nodes, self.plan)}
        not_on = tuple(sorted(node.id for node in nodes if node.id not in hosts))
        if not_on:
            self.board.empty_nodes.remote(list(not_on))
        return Room(groups_with_room(nodes, self.plan, self.options.groups), not_on)

    def _tell_groups(self) -> None:
        groups = plural(self.alive, "worker group")
        waiting = "" if self.wanted else "; waiting for a machine"
        self.watch.said(f"{groups} at work, room for {self.wanted}{waiting}.")
        self.watch.groups(self.alive, self.wanted)

    def _pass_on(self, event: dict[str, Any]) -> None:  # noqa: C901 (a flat list of events)
        match event["event"]:
            case "epoch":
                number, fold = event["key"]
                record = EpochRecord.model_validate_json(event["record"])
                self._longest_epoch = max(self._longest_epoch, record.seconds)
                self.watch.epoch(number, fold, record)
            case "features":
                self.watch.features(event["done"], event["total"])
            case "timed":
                self._tell_time(event)
            case "floor":
                self._tell_floor(event["score"])
            case "group":
                self.alive, self._leaving = event["alive"], event["leaving"]
            case "retry":
                self.watch.said(self._retry_words(event))
            case "paused":
                number, fold = event["key"]
                self.watch.said(f"Fold {fold} of {self.noun} {number} pauses after its epoch.")
            case "elsewhere":
                self.watch.said("That is tried on another machine.")
            case "warning":
                self.watch.said(event["sentence"])
            case "trouble":
                self.trouble = ClusterError(event["sentence"])

    def _tell_time(self, event: dict[str, Any]) -> None:
        """Says once how long the search will take; every group times its first training."""
        if not self._time_said:
            self._time_said = True
            other = event["frozen"]
            self.watch.timed(
                FoldTime.from_dict(event["own"]),
                None if other is None else FoldTime.from_dict(other),
                self.size,
            )

    def _tell_floor(self, score: float) -> None:
        """Says once what the search has to beat; every group tells it of every fold."""
        if not self._floor_said:
            self._floor_said = True
            self.watch.validation_floor(score)

    def _retry_words(self, event: dict[str, Any]) -> str:
        number, fold = event["key"]
        if event["kind"] == "train":
            return (
                f"A worker was lost while training fold {fold} of {self.noun} {number}; the fold "
                "goes on from its last epoch."
            )
        return f"A worker was lost while testing {self.noun} {number}; it is tested again."

    def _listen(self) -> None:
        import ray

        try:
            while not self._over.is_set():
                for event in ray.get(self.board.events.remote(LISTEN_SECONDS)):
                    self._events.put(event)
        except ray.exceptions.RayError:
            self._events.put({"event": "trouble", "sentence": BOARD_LOST})

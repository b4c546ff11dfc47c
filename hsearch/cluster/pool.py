"""The pool: Ray Train worker groups that live as long as the search, as many as the cluster holds.

Starting a group costs tens of seconds (processes, imports, process group); a job on a group that
stands costs milliseconds.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import ray.exceptions
import ray.train
from ray.actor import ActorHandle
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

from hsearch.cluster.preflight import Plan
from hsearch.errors import ClusterError

RETRY_SECONDS = 30.0
CLOSING_SECONDS = 20.0
MAX_RESTARTS = 20
MAX_FAILED_STARTS = 3
NODE = "ray.io/node-id"  # a label that Ray gives to every node


@dataclass(frozen=True)
class Room:
    """Where groups fit at one moment.

    Attributes:
        groups: How many.
        not_on: Ids of nodes that have room but get none.
    """

    groups: int
    not_on: tuple[str, ...] = ()


class Pool:
    """Keeps as many worker groups running as the plan of the moment says.

    Args:
        board: Where groups take jobs; a named actor.
        name: Of that actor.
        plan: The shape of a group.
        room: Returns where groups fit at the moment, and how many.
        config: For every worker; see `work`.
        folder: For Ray's files, on this machine.
        say: Called with what is worth telling.
    """

    def __init__(
        self,
        board: ActorHandle,
        name: str,
        plan: Plan,
        room: Callable[[], "Room"],
        config: dict[str, Any],
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._board, self._name = board, name
        self._plan, self._room, self._config = plan, room, config
        self._folder, self._say = folder, say
        self._threads: dict[int, threading.Thread] = {}
        self._ended: queue.SimpleQueue[tuple[int, str | None]] = queue.SimpleQueue()
        self._abandoned = threading.Event()
        self._next = 0
        self._not_before = 0.0
        self._failed_starts = 0
        self.wanted = 0

    def tend(self, alive: int, leaving: Collection[int] = ()) -> None:
        """Starts groups for which there is room, and tells of those that ended.

        Args:
            alive: Groups that have taken up their work.
            leaving: Numbers of groups that will soon have ended.
        """
        if alive:
            self._failed_starts = 0
        while not self._ended.empty():
            number, trouble = self._ended.get()
            del self._threads[number]
            if trouble is not None and len(self._threads) < self.wanted:  # else it is not missed
                self._failed_starts += 1
                self._not_before = time.monotonic() + RETRY_SECONDS
                self._say(f"Worker group {number} ended: {trouble}")
                if not self._threads and self._failed_starts >= MAX_FAILED_STARTS:
                    raise ClusterError(
                        f"No worker group could be started in {self._failed_starts} attempts; the "
                        f"last said: {trouble}"
                    )
        room = self._room()
        self.wanted = room.groups
        if time.monotonic() < self._not_before:
            return
        while len(self._threads.keys() - set(leaving)) < self.wanted:
            arguments = (self._next, room.not_on)
            thread = threading.Thread(target=self._run, args=arguments, daemon=True)
            self._threads[self._next] = thread
            self._next += 1
            thread.start()

    def close(self) -> bool:
        """Sends all groups home, waits for them a while, and returns whether all have gone."""
        ray.get(self._board.close.remote())
        deadline = time.monotonic() + CLOSING_SECONDS
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads.values())

    def abandon(self) -> None:
        """Leaves the groups to the end of the session, which ends them."""
        self._abandoned.set()

    def _run(self, number: int, not_on: tuple[str, ...]) -> None:
        """Runs one group to its end; a lost worker starts it anew."""
        trouble: str | None = "it ended without a word"
        try:
            self._trainer(number, not_on).fit()
            trouble = None
        except (ray.train.TrainingFailedError, ray.exceptions.RayError) as error:
            trouble = _sentence(error)
        finally:
            if not self._abandoned.is_set():
                self._ended.put((number, trouble))
                self._board.leave.remote(number)

    def _trainer(self, number: int, not_on: tuple[str, ...]) -> TorchTrainer:
        plan = self._plan
        return _GroupTrainer(
            _work,
            train_loop_config={**self._config, "group": number, "board": self._name},
            # A single rank speaks to nobody: nccl would only take memory of its GPU.
            torch_config=TorchConfig(backend="gloo" if plan.workers == 1 else None),
            scaling_config=ScalingConfig(
                num_workers=plan.workers,
                use_gpu=bool(plan.gpus),
                resources_per_worker=plan.resources,
                placement_strategy="PACK",
                label_selector={NODE: f"!in({','.join(not_on)})"} if not_on else None,
            ),
            run_config=RunConfig(
                name=f"group-{number}",
                storage_path=str(self._folder / "train"),
                failure_config=FailureConfig(max_failures=MAX_RESTARTS, controller_failure_limit=0),
            ),
        )


def _work(config: dict[str, Any]) -> None:
    """Runs in a worker, which alone imports what training takes: seconds of the driver's start."""
    from hsearch.cluster.worker import work

    work(config)


class _GroupTrainer(TorchTrainer):  # type: ignore[misc]
    """A TorchTrainer without the process that Ray starts for Ray Datasets, which nobody uses here.

    Should Ray rename the method, that process is back and nothing else changes.
    """

    def _create_default_callbacks(self) -> list[Any]:
        callbacks = super()._create_default_callbacks()
        return [c for c in callbacks if type(c).__name__ != "DatasetsCallback"]


def _sentence(error: Exception) -> str:
    cause = getattr(error, "controller_failure", error)
    if type(cause).__name__ == "WorkerGroupStartupTimeoutError":
        seconds = os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"]
        return f"it could not be placed within {seconds} s; does something else use the cluster?"
    lines = [line for line in str(cause).splitlines() if line.strip()]
    return (lines or [type(cause).__name__])[0]

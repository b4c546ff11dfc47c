"""A reproduction on Ray: the runs' folds trained and their networks tested by a crew."""

import json
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hsearch.addresses import Place
from hsearch.cluster.crew import BOARD_LOST, Crew, check_held
from hsearch.cluster.options import ClusterOptions, first_plan
from hsearch.cluster.run import claim_folder
from hsearch.cluster.session import ray_session
from hsearch.data.places import absolute, remove
from hsearch.errors import ClusterError
from hsearch.evaluation.query_table import FLOOR_NAME
from hsearch.results import FloorScore, FoldResult, Tested
from hsearch.search.reproduced import (
    ReproductionRecord,
    ReproductionSpec,
    RunRecord,
    run_name,
    runs_folder,
)
from hsearch.search.reproduction import Reproduction
from hsearch.search.stored import StoredStudy
from hsearch.search.watch import Watch

if TYPE_CHECKING:
    from ray import ObjectRef

    from hsearch.cluster.board import Kind

WAIT_SECONDS = 0.5


class RunWatch(Watch):
    """Sees a reproduction; `epoch` tells of its runs."""

    def run(self, record: RunRecord) -> None:
        """Called when a run has got a fold, or ended; state and folds say which."""

    def floor(self) -> None:
        """Called when the floor is tested."""


@dataclass(frozen=True)
class _Task:
    """One job for the board."""

    kind: "Kind"
    run: int
    fold: int


def forget_runs(folder: Place, spec: ReproductionSpec) -> None:
    """Removes the networks of all runs; the caller holds the reproduction's lease."""
    remove(runs_folder(folder, spec))


def is_over(record: ReproductionRecord, runs: int) -> bool:
    """Whether nothing of the first so many runs is left to train or to test."""
    ended = all(run.state != "running" for run in record.runs[:runs])
    return record.floor_queries is not None and ended


def run_reproduction(
    reproduction: Reproduction,
    runs: int,
    study: StoredStudy,
    options: ClusterOptions,
    watch: RunWatch,
    halted: threading.Event | None = None,
    stopping: threading.Event | None = None,
) -> ReproductionRecord:
    """Trains and tests the first so many runs, as far as that is not done, and returns the record.

    Args:
        reproduction: The record, with these runs; the caller holds its lease.
        runs: How many.
        study: The record of the search, whose folder is used.
        options: How the cluster is used.
        watch: Sees the progress; all calls come from this thread.
        halted: Ends the work when set, as when the lease was lost.
        stopping: Lets the work wind down when set: running epochs and tests come to their end.
    """
    halted, stopping = halted or threading.Event(), stopping or threading.Event()
    out = absolute(options.folder)
    folder = runs_folder(out, reproduction.spec)
    with ray_session(options.address) as session:
        plan = first_plan(options, session, watch.said, halted, stopping)
        if plan is None:
            check_held(reproduction.name, halted)
            return reproduction.record()
        place = out / study.name
        crew = Crew(plan, options, watch, place, session, halted, noun="run", must_share=True)
        claim_folder(place, study)
        with crew.working():
            driver = _Driver(reproduction, runs, crew, watch, folder)
            driver.drive(stopping)
            crew.check_end(reproduction.name)
    return reproduction.record()


class _Driver:
    """Hangs out jobs and records their outcomes; a run is tested once its folds are trained."""

    def __init__(
        self, reproduction: Reproduction, count: int, crew: Crew, watch: RunWatch, folder: Place
    ) -> None:
        self.reproduction, self.count = reproduction, count
        self.crew, self.watch, self.folder = crew, watch, folder
        self.record = reproduction.record()
        self.waiting = deque(self._open_tasks())
        self.hanging: dict[ObjectRef[Any], _Task] = {}

    def drive(self, stopping: threading.Event) -> None:
        """Works until nothing is left to do, it is stopped, or there is trouble."""
        import ray

        while (self.waiting or self.hanging) and not self.crew.is_halted():
            while self.waiting and len(self.hanging) <= self.crew.size:
                task = self.waiting.popleft()
                self.hanging[self._hang_out(task)] = task
            done, _ = ray.wait(list(self.hanging), timeout=WAIT_SECONDS)
            for reference in done:
                if reference in self.hanging:  # else of a run that has failed meanwhile
                    self._enter(self.hanging.pop(reference), self._outcome(reference))
            self.crew.every_step()
            if stopping.is_set():
                self.crew.pause()

    def _outcome(self, reference: "ObjectRef[Any]") -> dict[str, Any]:
        import ray

        try:
            outcome: dict[str, Any] = ray.get(reference)
        except ray.exceptions.RayError:
            return {"broken": BOARD_LOST}
        return outcome

    def _open_tasks(self) -> Iterator[_Task]:
        """What is still to do, as far as it can begin now."""
        folds = self.record.spec.folds
        if self.record.floor_queries is None:
            yield _Task("floor", 0, folds[0])
        for run in self.record.runs[: self.count]:
            if run.state == "running":
                missing = [fold for fold in folds if fold not in run.folds]
                for fold in missing:
                    yield _Task("train", run.number, fold)
                if not missing:
                    yield _Task("test", run.number, folds[0])

    def _hang_out(self, task: _Task) -> "ObjectRef[Any]":
        job = self.record.spec.job_of(task.run, task.fold).model_dump_json()
        path = self.folder / (FLOOR_NAME if task.kind == "floor" else run_name(task.run))
        if task.kind == "train":
            path = path / f"fold-{task.fold}"
            self.reproduction.note_start(task.run)
        fold = {"train": task.fold, "test": -1, "floor": -2}[task.kind]  # no two keys may be equal
        key = task.run, fold
        return self.crew.board.train.remote(key, job, str(path), task.kind)

    def _enter(self, task: _Task, outcome: dict[str, Any]) -> None:
        if "broken" in outcome or ("failed" in outcome and task.kind == "floor"):
            self.crew.trouble = ClusterError(outcome.get("broken") or outcome["failed"])
            return
        if "failed" in outcome:
            self.reproduction.fail(task.run, outcome["failed"], final="final" in outcome)
            self._leave(task.run)
        else:
            self._enter_result(task, json.loads(outcome["result"]))
        self.record = self.reproduction.record()
        if task.kind == "floor":
            self.watch.floor()
            return
        run = self.record.runs[task.run]
        self.watch.run(run)
        if task.kind == "train" and run.state == "running":
            self._test_if_trained(run)

    def _leave(self, run: int) -> None:
        """Gives up what else there is of a run, on the board too."""
        self.waiting = deque(task for task in self.waiting if task.run != run)
        self.hanging = {ref: task for ref, task in self.hanging.items() if task.run != run}
        self.crew.board.withdraw.remote(run)

    def _enter_result(self, task: _Task, result: Any) -> None:  # noqa: ANN401 (plain JSON)
        match task.kind:
            case "floor":
                self.reproduction.record_floor(FloorScore.from_dict(result))
            case "train":
                self.reproduction.record_fold(task.run, FoldResult.from_dict(result))
            case "test":
                self.reproduction.record_tested(task.run, Tested.from_dict(result))

    def _test_if_trained(self, run: RunRecord) -> None:
        """Puts the test of a run before all other work once its last fold is trained."""
        folds = self.record.spec.folds
        if all(fold in run.folds for fold in folds):
            self.waiting.appendleft(_Task("test", run.number, folds[0]))

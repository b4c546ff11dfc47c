"""What `record_folds.py` and `search_quality.py` share: real trainings of seconds, in processes.

A training sees 6400 images of 32 px through the smallest of timm's test networks, from random
weights: far from converged, but good knobs are told from bad ones, and it takes 7 s on one core.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import torch

from hsearch.errors import DivergedError
from hsearch.folds import NUM_FOLDS, class_splits
from hsearch.results import FoldResult
from hsearch.search.space import SearchSpace, load_space
from hsearch.spec import FoldJob
from hsearch.training.folder import RunFolder
from hsearch.training.loop import Report, train_fold
from hsearch.training.resolve import resolve_job
from hsearch.yaml_file import Value

METHOD = "hpl"
SETTINGS: dict[str, Value] = {
    "model.backbone": "test_efficientnet",
    "model.backbone_args": {},
    "batch.size": 64,
    "batch.per_class": 2,
    "schedule.epochs": 1,
    "schedule.iterations_per_epoch": 100,
}


@dataclass(frozen=True)
class Outcome:
    """A job that has ended: with its result, or with why it diverged."""

    result: FoldResult | None
    reason: str | None
    seconds: float


def short_job(data: str, settings: dict[str, Value] | None = None) -> FoldJob:
    """Fold 0 with published knobs."""
    given = SETTINGS | (settings or {})
    return resolve_job(method=METHOD, data=data, recipe="small", settings=given)


def space_for(num_classes: int) -> SearchSpace:
    """What is searched on data with so many classes: that of the smallest fold."""
    folds = class_splits(num_classes).folds
    return load_space(METHOD).for_classes(min(len(fold.train) for fold in folds))


def train(job: FoldJob) -> Outcome:
    """Trains in a folder that vanishes."""
    began = time.perf_counter()
    result, reason = None, None
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path) / "run")
        try:
            with folder.claimed(job):
                result = train_fold(job, Report(), folder)
        except DivergedError as error:
            reason = str(error)
    return Outcome(result, reason, time.perf_counter() - began)


class Trainers:
    """Processes of one thread each that train jobs; a context, so that none stays behind."""

    def __init__(self, processes: int) -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        self._pool = ProcessPoolExecutor(
            processes,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=torch.set_num_threads,
            initargs=(1,),
        )

    def __enter__(self) -> "Trainers":
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def submit(self, job: FoldJob) -> "Future[Outcome]":
        return self._pool.submit(train, job)

    def in_order_of_end(self, jobs: Iterable[FoldJob]) -> Iterator[tuple[FoldJob, Outcome]]:
        """Trains all jobs, begun in their order, and yields each as it ends."""
        under_way = {self.submit(job): job for job in jobs}
        while under_way:
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in ended:
                yield under_way.pop(future), future.result()


def all_folds(job: FoldJob) -> list[FoldJob]:
    """The job on every fold."""
    return [job.model_copy(update={"fold": fold}) for fold in range(NUM_FOLDS)]

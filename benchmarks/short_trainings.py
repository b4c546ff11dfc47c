"""What `record_folds.py` and `search_quality.py` share: real trainings of seconds, in processes.

As in practice, a backbone that has learned on other images is fine-tuned: the smallest of timm's
test networks, which has seen 25 600 images of writing systems that are in no data set (the glyphs
of another seed; half a minute). A training then sees 2560 images of 32 px, which takes 3 to 4 s on
one core. From random weights a few seconds teach too little.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from hsearch.data.sources import glyphs
from hsearch.data.store_writer import write_store
from hsearch.errors import DivergedError
from hsearch.folds import NUM_FOLDS
from hsearch.results import FoldResult
from hsearch.search.plan import StudyPlan, plan_study
from hsearch.search.record import Sampler
from hsearch.spec import FoldJob
from hsearch.training.folder import RunFolder
from hsearch.training.loop import Report, train_fold
from hsearch.training.resolve import resolve_job
from hsearch.yaml_file import Value

METHOD = "hpl"
NETWORK: dict[str, Value] = {
    "model.backbone": "test_efficientnet",
    "model.backbone_args": {},
    "batch.size": 64,
    "batch.per_class": 2,
}
SETTINGS: dict[str, Value] = NETWORK | {
    "optimizer.lr.backbone": 0.004,
    "schedule.epochs": 1,
    "schedule.iterations_per_epoch": 40,
}
OTHER_GLYPHS = 1  # seed of the writing systems that the backbone has seen before
BACKBONE = "model.embedder.backbone.network."


@dataclass(frozen=True)
class Outcome:
    """A job that has ended: with its result, or with why it diverged."""

    result: FoldResult | None
    reason: str | None
    seconds: float


def pretrained_backbone(folder: Path) -> str:
    """Returns the path of the weights that all trainings begin with, which it makes at first.

    They follow from the code alone.
    """
    weights = folder / "other.safetensors"
    if weights.exists():
        return str(weights)
    own, glyphs.SEED = glyphs.SEED, OTHER_GLYPHS
    try:
        write_store(folder / "other.arrow", "other", glyphs.records(), provenance={})
    finally:
        glyphs.SEED = own
    job = resolve_job(
        method="proxy_anchor",
        data=str(folder / "other.arrow"),
        recipe="small",
        settings=NETWORK | {"schedule.epochs": 1, "schedule.iterations_per_epoch": 400},
    )
    run = RunFolder(folder / "other")
    with run.claimed(job):
        train_fold(job, Report(), run)
    tensors = load_file(run.best)
    own_names = {n.removeprefix(BACKBONE): t for n, t in tensors.items() if n.startswith(BACKBONE)}
    save_file(own_names, weights)
    return str(weights)


def short_study(
    data: str, weights: str, *, seed: int = 0, sampler: Sampler = "random", race: bool = False
) -> StudyPlan:
    """A study of short trainings: its job, and what is searched on these data."""
    return plan_study(
        method=METHOD,
        data=data,
        recipe="small",
        settings=SETTINGS | {"model.weights": weights},
        seed=seed,
        sampler=sampler,
        race=race,
    )


def train(job: FoldJob, folder: Path) -> Outcome:
    """Trains in a folder, unless it holds the result already, and keeps the result alone."""
    began = time.perf_counter()
    run = RunFolder(folder / job.digest())
    result, reason = None, None
    try:
        with run.claimed(job):
            result = train_fold(job, Report(), run)
    except DivergedError as error:
        reason = str(error)
    run.last.unlink(missing_ok=True)
    run.best.unlink(missing_ok=True)
    return Outcome(result, reason, time.perf_counter() - began)


class Trainers:
    """Processes of one thread each that train jobs; a context, so that none stays behind.

    Args:
        processes: How many.
        folder: Receives the results; one that lives on makes every training happen once.
    """

    def __init__(self, processes: int, folder: Path) -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        self._folder = folder
        self._pool = ProcessPoolExecutor(
            processes,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=torch.set_num_threads,
            initargs=(1,),
        )

    def __enter__(self) -> "Trainers":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that __exit__ ends them then too
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def submit(self, job: FoldJob) -> "Future[Outcome]":
        return self._pool.submit(train, job, self._folder)

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

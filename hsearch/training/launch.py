"""A training on this machine: in this process, or as several local ranks."""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
import torch.distributed as dist

from hsearch.errors import ClusterError, ConfigError, HsearchError
from hsearch.results import FoldResult
from hsearch.spec import FoldJob
from hsearch.training.folder import RunFolder
from hsearch.training.loop import Report, train_fold

START_SECONDS = 300


def train_locally(job: FoldJob, report: Report, path: Path, workers: int = 1) -> FoldResult:
    """Trains a job in a run folder; a folder that holds a part of this very job is resumed.

    With several workers this process is rank 0 and starts the others; they end with it.
    """
    if workers < 1 or job.training.batch.size % workers:
        raise ConfigError(
            "`batch.size` must be a multiple of the number of workers, so that every one gets an "
            f"equal part, but got {job.training.batch.size} and {workers}."
        )
    folder = RunFolder(path)
    with folder.claimed(job):
        if workers == 1:
            return train_fold(job, report, folder)
        with _other_ranks(job, path, workers):
            try:
                return train_fold(job, report, folder)
            except RuntimeError as error:
                raise ClusterError(
                    f"A worker was lost ({str(error).splitlines()[0]}); run the same command "
                    "again to go on from the last epoch."
                ) from error


@contextmanager
def _other_ranks(job: FoldJob, path: Path, workers: int) -> Iterator[None]:
    """Starts ranks 1.. as processes and makes this process rank 0 of their group."""
    context = multiprocessing.get_context("spawn")
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory(prefix="hsearch-ranks-") as meeting:
        ready = context.Barrier(workers)
        processes: list[BaseProcess] = [
            context.Process(
                target=_rank_main,
                args=(job.to_dict(), str(path), rank, workers, meeting, ready),
                name=f"hsearch-rank-{rank}",
                daemon=True,
            )
            for rank in range(1, workers)
        ]
        try:
            for process in processes:
                process.start()
            try:
                ready.wait(START_SECONDS)
            except threading.BrokenBarrierError:
                raise ClusterError(
                    f"{workers} workers must start within {START_SECONDS} s, but not all did; "
                    "is there enough memory?"
                ) from None
            _join_group(0, workers, meeting)
            yield
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
            for process in processes:
                process.terminate()
                process.join()
            torch.set_num_threads(threads)


def _rank_main(
    job: dict[str, object],
    path: str,
    rank: int,
    workers: int,
    meeting: str,
    ready: threading.Barrier,
) -> None:
    """Main function of ranks 1..: the same training, silent; rank 0 reports errors of the job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    try:
        ready.wait(START_SECONDS)
        _join_group(rank, workers, meeting)
        train_fold(FoldJob.from_dict(job), Report(), RunFolder(Path(path)))
    except HsearchError:
        sys.exit(1)
    except (RuntimeError, threading.BrokenBarrierError):
        if os.getppid() == parent:
            raise
        sys.exit(1)


def _join_group(rank: int, workers: int, meeting: str) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    backend = "nccl" if torch.cuda.device_count() >= workers else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        backend, init_method=f"file://{meeting}/ranks", rank=rank, world_size=workers
    )

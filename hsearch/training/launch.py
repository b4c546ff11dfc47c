"""A training on this machine: in this process, or as several local ranks."""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Semaphore
from pathlib import Path

import torch
import torch.distributed as dist

from hsearch.errors import ClusterError, ConfigError, HsearchError
from hsearch.results import FoldResult
from hsearch.spec import FoldJob
from hsearch.training.folder import RunFolder
from hsearch.training.loop import Report, train_fold

START_SECONDS = 300
GRACE_SECONDS = 30


def train_locally(job: FoldJob, report: Report, path: Path, workers: int = 1) -> FoldResult:
    """Trains a job in a run folder; a folder that holds a part of this very job is resumed.

    With several workers this process is rank 0 and starts the others; they end with it.
    """
    for size in job.training.batch_sizes:
        if workers < 1 or size % workers:
            raise ConfigError(
                "`batch.size` must be a multiple of the number of workers, so that every one gets "
                f"an equal part, but got {size} and {workers}."
            )
    folder = RunFolder(path)
    with folder.claimed(job):
        if workers == 1:
            return train_fold(job, report, folder)
        with _OtherRanks(job, path, workers).running():
            return train_fold(job, report, folder)


class _OtherRanks:
    """Ranks 1.. as processes, with this process as rank 0 of their group."""

    def __init__(self, job: FoldJob, path: Path, workers: int) -> None:
        self.job, self.path, self.workers = job, path, workers
        context = multiprocessing.get_context("spawn")
        self.ready = context.Semaphore(0)
        self.words: SimpleQueue[str] = context.SimpleQueue()
        self.meeting = tempfile.TemporaryDirectory(prefix="hsearch-ranks-")
        shared = (self.meeting.name, self.ready, self.words)
        self.processes = [
            context.Process(
                target=_rank_main,
                args=(job.to_dict(), str(path), rank, workers, *shared),
                name=f"hsearch-rank-{rank}",
                daemon=True,
            )
            for rank in range(1, workers)
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Starts the ranks, joins their group, and ends them whatever happens."""
        threads = torch.get_num_threads()
        over = threading.Event()
        try:
            for process in self.processes:
                process.start()
            self._await_start()
            _join_group(0, self.workers, self.meeting.name)
            threading.Thread(target=self._leave_if_stuck, args=(over,), daemon=True).start()
            yield
        except RuntimeError as error:
            if self._lost():
                raise ClusterError(self._sentence()) from error
            raise
        finally:
            over.set()
            _end(self.processes, patience=10 if sys.exc_info()[0] is None else 0)
            if dist.is_initialized():
                dist.destroy_process_group()
            self.meeting.cleanup()
            torch.set_num_threads(threads)

    def _await_start(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        for _ in self.processes:
            while not self.ready.acquire(timeout=0.5):
                dead = any(process.exitcode is not None for process in self.processes)
                if dead or time.monotonic() > deadline:
                    raise ClusterError(
                        f"{self.workers} workers must start within {START_SECONDS} s, but not all "
                        "did; is there enough memory?"
                    )

    def _lost(self) -> bool:
        """Whether a rank has died, given a moment to do so."""
        wait([process.sentinel for process in self.processes], timeout=2)
        for process in self.processes:
            process.join(0.1)  # its exit code comes a moment after its sentinel
        return any(process.exitcode for process in self.processes)

    def _sentence(self) -> str:
        if not self.words.empty():
            return self.words.get()
        return "A worker was lost; run the same command again to go on from the last epoch."

    def _leave_if_stuck(self, over: threading.Event) -> None:
        """Ends this process if it still waits for a rank that died: nccl would wait for minutes."""
        wait([process.sentinel for process in self.processes])
        if not over.wait(GRACE_SECONDS) and any(process.exitcode for process in self.processes):
            sys.stderr.write(f"hsearch: error: {self._sentence()}\n")
            os._exit(1)


def _end(processes: list[SpawnProcess], patience: float) -> None:
    for process in processes:
        if process.pid is not None:
            process.join(patience)
            process.terminate()
            process.join()


def _rank_main(
    job: dict[str, object],
    path: str,
    rank: int,
    workers: int,
    meeting: str,
    ready: Semaphore,
    words: "SimpleQueue[str]",
) -> None:
    """Main function of ranks 1..: the same training, silent; errors go to rank 0 as a sentence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        ready.release()
        _join_group(rank, workers, meeting)
        train_fold(FoldJob.from_dict(job), Report(), RunFolder(Path(path)))
        dist.destroy_process_group()
    except (HsearchError, RuntimeError, OSError, MemoryError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        words.put(f"Worker {rank} ended: {first}")
        os._exit(1)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _join_group(rank: int, workers: int, meeting: str) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    backend = "nccl" if torch.cuda.device_count() >= workers else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        backend, init_method=f"file://{meeting}/ranks", rank=rank, world_size=workers
    )

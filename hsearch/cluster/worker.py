"""What a worker of a group does: take a job from the board, train it, and again."""

import gc
import os
import socket
import statistics
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import ray
import ray.cloudpickle as cloudpickle
import torch
from ray.actor import ActorHandle

import hsearch.distributed as distributed
from hsearch.addresses import Address, read_place
from hsearch.cluster.board import LEAVE
from hsearch.cluster.version import code_version
from hsearch.errors import ConfigError, DatasetError, DivergedError, HsearchError
from hsearch.folds import folds_of_run
from hsearch.results import EpochRecord, Metrics, score_of
from hsearch.search.reproduced import PICTURES
from hsearch.spec import FoldJob
from hsearch.training.folder import RunFolder
from hsearch.training.kept import Train, local_folds, train_kept
from hsearch.training.loop import PausedError, Report, train_fold
from hsearch.training.testing import score_floor, score_run
from hsearch.training.timing import fold_time, frozen_time

PATIENCE_SECONDS = 20.0
"""How long a group waits for a job before its ranks meet again, far below any rank's timeout."""

_TIMED_STEPS = 5

CLAIM_SECONDS = 180.0
"""How long a run folder may stay locked for a worker that is gone: on NFS a cut-off machine's lock
lives for 90 s."""


def work(config: dict[str, Any]) -> None:
    """Trains jobs until the board sends the group home; every rank runs this.

    Args:
        config: `group` (its number), `board` (name of the actor), `threads` (of this rank),
            `folder` (of the study, at an address or seen by all nodes; `must_share` if nothing
            can be done where it is not), `environment` (variables of the driver), `version` (of
            its hsearch) and `train` (a `Train`, or None, pickled so that only workers import it).
    """
    torch.set_num_threads(config["threads"])
    os.environ.update(config["environment"])
    group: int = config["group"]
    train: Train = cloudpickle.loads(config["train"]) or train_fold
    board = ray.get_actor(config["board"])
    _compare_machines(config, board)
    nodes = distributed.gather_objects(ray.get_runtime_context().get_node_id())
    first = distributed.rank() == 0
    if first:
        ray.get(board.enter.remote(group, nodes))
    while True:
        taken = ray.get(board.take.remote(group, PATIENCE_SECONDS)) if first else None
        ticket = distributed.share_object(taken)
        if ticket == LEAVE:
            return
        if ticket is not None:
            outcome = _outcome(ticket, board, group, train)
            if first:
                ray.get(board.finish.remote(group, ticket["key"], outcome))


def _compare_machines(config: dict[str, Any], board: ActorHandle) -> None:
    """Tells the board if this machine has another hsearch than the driver, or not its folder."""
    here, there = code_version(), config["version"]
    if here != there:
        sentence = (
            f"All machines must have the same hsearch, but {socket.gethostname()} has {here} and "
            f"the driver {there}; install the same there, as `ray up` does, and run the same "
            "command again."
        )
        ray.get(board.warn.remote(sentence, True))
    folder = read_place(config["folder"])
    if isinstance(folder, Path) and not folder.is_dir():
        ray.get(board.warn.remote(_not_shared(config["folder"]), config["must_share"]))


def _outcome(
    ticket: dict[str, Any], board: ActorHandle, group: int, train: Train
) -> dict[str, str]:
    """Returns the outcome of a job.

    What the configuration brings about is `failed`; what the machine does, `broken`. Of several
    ranks, one that loses the others has no outcome: it ends, and the group starts anew.
    """
    job = FoldJob.model_validate_json(ticket["job"])
    alone = distributed.world_size() == 1  # asked now: Ray may take a broken group down meanwhile
    try:
        return {"result": _result(ticket, job, _ToBoard(board, group, job, ticket["key"]), train)}
    except PausedError:  # as the next one, it meets every rank alike
        return {"paused": "yes"}
    except DivergedError as error:
        return {"failed": str(error), "final": "yes"}
    except Exception as error:
        traceback.print_exc()
        outcome = _outcome_of(error, job)
        if alone:
            return outcome
        if "broken" in outcome or _is_out_of_memory(error):
            ray.get(board.finish.remote(group, ticket["key"], outcome))
        raise  # the other ranks wait in an exchange: the group starts anew
    finally:
        if torch.cuda.is_available():
            gc.collect()
            torch.cuda.empty_cache()


def _result(ticket: dict[str, Any], job: FoldJob, report: "_ToBoard", train: Train) -> str:
    """Does what a ticket asks for, and returns the result as JSON."""
    place = read_place(ticket["path"])
    if ticket["kind"] == "test":
        with local_folds(place, folds_of_run(job.fold)) as path:
            tested = score_run(path, folds_of_run(job.fold))
            if ticket["key"][0] == 0:  # one run of all is drawn
                _draw(path / f"fold-{job.fold}", path / PICTURES, report)
        return tested.model_dump_json()
    if ticket["kind"] == "floor":
        with local_folds(place, ()) as path:
            return score_floor(job, path).model_dump_json()
    if isinstance(place, Address):
        return train_kept(job, report, place, train).model_dump_json()
    with _claimed(job, place) as folder:
        result = train(job, report, folder)
        if distributed.rank() == 0:
            folder.remove_state()
    return result.model_dump_json()


def _draw(network: Path, folder: Path, report: "_ToBoard") -> None:
    """Draws a network on the test classes; what cannot be drawn is no reason to fail.

    All ranks embed the images, and rank 0 has the files.
    """
    from hsearch.report.model_pictures import write_model_pictures  # with matplotlib

    with tempfile.TemporaryDirectory() as elsewhere:
        place = folder if distributed.rank() == 0 else Path(elsewhere)
        try:
            write_model_pictures(network, place, "test")
        except Exception as error:  # noqa: BLE001 (ranks only speak before the drawing begins)
            why = (str(error).splitlines() or [type(error).__name__])[0]
            if distributed.rank() == 0:
                report.warn(f"{network} is not drawn: {why}")


class _ClaimError(Exception):
    """A run folder that cannot be used."""


@contextmanager
def _claimed(job: FoldJob, path: Path) -> Iterator[RunFolder]:
    """Holds the run folder on rank 0, and gives it to every rank."""
    folder = RunFolder(path)
    with ExitStack() as stack:
        if distributed.rank() == 0:
            try:
                stack.enter_context(folder.claimed(job, patience=CLAIM_SECONDS))
            except ConfigError as error:
                raise _ClaimError(error) from error
        yield folder


def _not_shared(folder: str) -> str:
    return (
        f"{socket.gethostname()} does not see the driver's {folder}: a fold that loses its machine "
        "starts over there, and the best networks stay where they were trained; `--out` had better "
        "name a folder that all machines share, or an address such as s3://bucket/folder."
    )


class _ToBoard(Report):
    """Sends finished epochs to the board, without waiting.

    Class attributes:
        timed: Whether this process has timed a training.
    """

    timed = False

    def __init__(self, board: ActorHandle, group: int, job: FoldJob, key: tuple[int, int]) -> None:
        self.board, self.group, self.job, self.key = board, group, job, key
        self._told = 0.0
        self._validation = 0.0
        self._timing: list[float] | None = None if _ToBoard.timed else []
        _ToBoard.timed = True

    def warn(self, sentence: str) -> None:
        """Sends what a person should know."""
        self.board.warn.remote(sentence)

    def features(self, done: int, total: int) -> None:
        """Sends how far features are, about once a second."""
        if distributed.rank() == 0 and (done == total or time.monotonic() > self._told + 1.0):
            self._told = time.monotonic()
            self.board.features.remote(done, total)

    def floor(self, folds: Sequence[Metrics]) -> None:
        """Sends the mean over the folds."""
        scores = [score_of(metrics, self.job.objective) for metrics in folds]
        self.board.floor.remote(statistics.fmean(scores))

    def iteration(self, epoch: int, done: int, total: int) -> None:
        """Times the first few steps of a process, and sends what a fold takes."""
        if self._timing is None or distributed.rank() != 0:
            return
        self._timing.append(time.perf_counter())
        if len(self._timing) > _TIMED_STEPS:
            step = (self._timing[-1] - self._timing[0]) / (len(self._timing) - 1)
            self._timing = None
            own = fold_time(self.job, step=step, validation=self._validation)
            frozen = frozen_time(self.job, self._validation) if self._validation else None
            other = frozen.to_dict() if frozen else None
            self.board.timed.remote({"own": own.to_dict(), "frozen": other})

    def epoch(self, record: EpochRecord) -> None:
        """Sends one epoch."""
        if record.epoch == 0:
            self._validation = record.seconds
        self.board.epoch.remote(self.group, self.key, record.model_dump_json())

    def must_pause(self) -> bool:
        """Asks the board."""
        return distributed.rank() == 0 and bool(ray.get(self.board.must_pause.remote(self.group)))


def _outcome_of(error: Exception, job: FoldJob) -> dict[str, str]:
    """Says in one line why a training could not go on, and whose fault it is."""
    first = (str(error).splitlines() or [""])[0]
    if isinstance(error, DatasetError | OSError | _ClaimError):
        return {"broken": f"{socket.gethostname()}: {first}"}
    if _is_out_of_memory(error):
        return {"failed": f"Out of memory in fold {job.fold}: {first}"}
    if isinstance(error, HsearchError):
        return {"failed": first}
    return {"failed": f"{type(error).__name__} in fold {job.fold}: {first}"}


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)

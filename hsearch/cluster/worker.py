"""What a worker of a group does: take a job from the board, train it, and again."""

import gc
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
import ray.cloudpickle as cloudpickle
import torch
from ray.actor import ActorHandle

import hsearch.distributed as distributed
from hsearch.cluster.board import LEAVE
from hsearch.errors import DivergedError, HsearchError
from hsearch.results import EpochRecord, FoldResult
from hsearch.spec import FoldJob
from hsearch.training.folder import RunFolder
from hsearch.training.loop import Report

Train = Callable[[FoldJob, Report, RunFolder], FoldResult]
"""What trains a fold: `train_fold`, or what a benchmark puts in its place."""

PATIENCE_SECONDS = 20.0
"""How long a group waits for a job before its ranks meet again, far below any rank's timeout."""

CLAIM_SECONDS = 60.0
"""How long the worker of a killed driver may need to let go of a run folder."""


def work(config: dict[str, Any]) -> None:
    """Trains jobs until the board sends the group home; every rank runs this.

    Args:
        config: `group` (its number), `board` (name of the actor), `threads` (of this rank) and
            `train` (a `Train`, pickled, so that only workers import what it needs).
    """
    torch.set_num_threads(config["threads"])
    group: int = config["group"]
    train: Train = cloudpickle.loads(config["train"])
    board = ray.get_actor(config["board"])
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
            outcome = _train(ticket, board, group, train)
            if first:
                ray.get(board.finish.remote(group, ticket["key"], outcome))


def _train(ticket: dict[str, Any], board: ActorHandle, group: int, train: Train) -> dict[str, str]:
    """Returns the outcome of a job; what the configuration brings about is one, not an error."""
    job = FoldJob.model_validate_json(ticket["job"])
    folder = RunFolder(Path(ticket["path"]))
    report = _ToBoard(board, group, ticket["key"])
    try:
        if distributed.rank() == 0:
            with folder.claimed(job, patience=CLAIM_SECONDS):
                result = train(job, report, folder)
                folder.last.unlink(missing_ok=True)
        else:
            result = train(job, report, folder)
    except DivergedError as error:  # of the gathered loss, so it meets every rank alike
        return {"failed": str(error)}
    except (HsearchError, RuntimeError, MemoryError, ArithmeticError, LookupError, TypeError) as e:
        outcome = {"failed": _reason(e, job)}
        if distributed.world_size() > 1:  # the other ranks wait in an exchange: start anew
            ray.get(board.finish.remote(group, ticket["key"], outcome))
            raise
        traceback.print_exc()
        return outcome
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return {"result": result.model_dump_json()}


class _ToBoard(Report):
    """Sends finished epochs to the board, without waiting."""

    def __init__(self, board: ActorHandle, group: int, key: tuple[int, int]) -> None:
        self.board, self.group, self.key = board, group, key

    def epoch(self, record: EpochRecord) -> None:
        """Sends one epoch."""
        self.board.epoch.remote(self.group, self.key, record.model_dump_json())


def _reason(error: Exception, job: FoldJob) -> str:
    """Says in one line why a training could not go on."""
    first = (str(error).splitlines() or [""])[0]
    if _is_out_of_memory(error):
        return f"Out of memory in fold {job.fold}: {first}"
    if isinstance(error, HsearchError):
        return first
    return f"{type(error).__name__} in fold {job.fold}: {first}"


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)

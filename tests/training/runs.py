"""Trainings that are interrupted, watched and compared."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from hsearch import distributed
from hsearch.data.transforms import normalise
from hsearch.results import EpochRecord, FoldResult
from hsearch.spec import FoldJob
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.optimizer import forget_moments
from hsearch.training.stage import StageTools


class StoppedError(Exception):
    """What ends a training before its end."""


class Interrupt(Report):
    """Ends a training after an iteration of an epoch; after the whole epoch for iteration None."""

    def __init__(self, epoch: int, iteration: int | None = None) -> None:
        self.at = (epoch, iteration)

    def iteration(self, epoch: int, done: int, total: int) -> None:
        if (epoch, done) == self.at:
            raise StoppedError

    def epoch(self, record: EpochRecord) -> None:
        if (record.epoch, None) == self.at:
            raise StoppedError


def outcome(path: Path) -> tuple[Any, dict[tuple[str, str], bytes]]:
    """All that must be equal between two runs: every weight, loss and metric, but no times."""
    result = json.loads((path / "result.json").read_text())
    for record in result["history"]:
        del record["seconds"], record["images_per_second"]
    files = {name: load_file(path / f"{name}.safetensors") for name in ("best", "last")}
    return result, {
        (file, key): tensor.numpy().tobytes()
        for file, t in files.items()
        for key, tensor in t.items()
    }


def checkpoints(job: FoldJob, path: Path) -> tuple[FoldResult, list[dict[str, Tensor]]]:
    """Trains a job; returns its result and what its last checkpoint held after every epoch."""
    kept: list[dict[str, Tensor]] = []

    class Keeper(Report):
        def epoch(self, record: EpochRecord) -> None:
            kept.append(load_file(path / "last.safetensors"))

    return train_locally(job, Keeper(), path), kept


def train_steps(tools: StageTools, epoch: int, iterations: int) -> list[Tensor]:
    """Takes optimiser steps of a stage on this rank, in the type of its weights; returns losses."""
    step, losses = tools.step, []
    dtype = next(step.parameters()).dtype
    network = DistributedDataParallel(step) if distributed.world_size() > 1 else step
    step.train()
    for number, batch in enumerate(tools.batches.epoch(epoch, iterations), start=1):
        loss = network(normalise(batch.images, tools.batches.image).to(dtype), batch.labels)
        tools.optimizer.zero_grad()
        loss.backward()
        tools.optimizer.step()
        forget_moments(tools.optimizer, step.method.step(number))
        tools.after_step()
        losses.append(loss.detach())
    tools.share()
    return losses


def begin(job: FoldJob, data: Any) -> StageTools:
    """Returns the first stage of a job on the CPU."""
    return StageTools.begin(job.stages()[0], data, torch.device("cpu"), restored=False)

"""How long trainings take on this machine, from a few batches of the first one."""

import time

import numpy as np
import torch
from torch import Tensor

from hsearch.data.splits import split_store
from hsearch.methods import load_method
from hsearch.results import FoldTime
from hsearch.spec import FoldJob
from hsearch.training.features import backbone_shape
from hsearch.training.setup import build_step, open_job_store
from hsearch.training.step import TrainingStep

_STEPS = 5


def fold_time(job: FoldJob, *, step: float, validation: float, features: float = 0.0) -> FoldTime:
    """Returns how long a job takes at most.

    Args:
        job: What is trained.
        step: Seconds of an optimiser step.
        validation: Seconds of a validation.
        features: Seconds for all features that are to be cached, by one worker group alone.
    """
    schedule = job.training.schedule
    steps = schedule.iterations_per_epoch or _steps_per_epoch(job)
    evaluations = 1 + -(-schedule.epochs // schedule.eval_every)
    seconds = schedule.epochs * steps * step + evaluations * validation
    may_stop = schedule.patience is not None
    return FoldTime(seconds=seconds, features=features, may_stop_early=may_stop)


def frozen_time(job: FoldJob, validation: float) -> FoldTime | None:
    """Returns about how long the job would take in the regime `frozen`.

    None for a job that is of that regime, or whose backbone has random weights.

    Args:
        job: In another regime.
        validation: Seconds of one validation, most of which are the backbone's.
    """
    if job.training.model.regime == "frozen" or job.training.model.weights == "random":
        return None
    store = open_job_store(job)
    splits = split_store(store, job.splits)
    fold = splits.fold(job.fold)
    per_image = validation / max(1, len(fold.validation))
    views = 1 + job.training.image.cached_views
    model = job.training.model.model_copy(update={"regime": "frozen"})
    frozen = job.model_copy(update={"training": job.training.model_copy(update={"model": model})})
    kind = load_method(job.method.name)
    shape = backbone_shape(job, "map" if kind.features == "map" else "pooled")
    network = build_step(frozen, fold.hierarchy, torch.device("cpu"), cached=shape)
    batch = job.training.batch.size * network.method.views
    rows = np.arange(batch // network.method.views) % len(fold.train)
    labels = torch.from_numpy(np.tile(fold.train_labels[rows], (network.method.views, 1)))
    seconds = _seconds_per_step(network, torch.rand(batch, *shape), labels)
    return fold_time(
        frozen,
        step=seconds,
        validation=len(fold.validation) * seconds / batch,
        features=len(splits.trainval) * views * per_image,
    )


def _seconds_per_step(network: TrainingStep, inputs: Tensor, labels: Tensor) -> float:
    for step in range(_STEPS + 1):
        if step == 1:  # the first one takes longer
            began = time.perf_counter()
        loss = network.method(network.embed(inputs), labels)  # other ranks are elsewhere
        if loss.requires_grad:
            loss.backward()
    return (time.perf_counter() - began) / _STEPS


def _steps_per_epoch(job: FoldJob) -> int:
    """Optimiser steps of an epoch of the sampler, which sees about every image once."""
    fold = split_store(open_job_store(job), job.splits).fold(job.fold)
    return max(1, len(fold.train) // job.training.batch.size)

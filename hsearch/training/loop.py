"""Training one fold: plain torch, the same numbers on one process and on several."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import hsearch.distributed as distributed
from hsearch.data.transforms import network_input
from hsearch.errors import DivergedError
from hsearch.results import EpochRecord, FoldResult, Metrics, score_of, versions_of
from hsearch.seeds import seed_for
from hsearch.spec import FoldJob
from hsearch.training.best import best_record, candidates
from hsearch.training.checkpoint import load_checkpoint, read_notes, save_checkpoint
from hsearch.training.floor import fold_floors
from hsearch.training.folder import RunFolder, write_json
from hsearch.training.optimizer import (
    clip_gradients,
    forget_moments,
    lr_factor,
    set_learning_rates,
)
from hsearch.training.setup import FoldData, check_stages, load_fold
from hsearch.training.stage import StageTools
from hsearch.training.step import TrainingStep
from hsearch.training.validation import validate

PACKAGES = ("hsearch", "torch", "torchvision", "timm", "numpy", "faiss-cpu", "faiss-gpu")

EXPLODED = 1e6
"""No loss comes near this unless it runs away."""


class PausedError(Exception):
    """A training that was asked to pause; the same job goes on after its last epoch."""


class Report:
    """Receives the progress of a training; no method does anything until overridden."""

    def features(self, done: int, total: int) -> None:
        """Called while features are computed, with the views that all processes have done."""

    def floor(self, folds: Sequence[Metrics]) -> None:
        """Called before the first epoch with what needs no training, on every fold."""

    def iteration(self, epoch: int, done: int, total: int) -> None:
        """Called after every optimiser step."""

    def epoch(self, record: EpochRecord) -> None:
        """Called after every epoch, and first for epoch 0, the network before training."""

    def must_pause(self) -> bool:
        """Asked before every epoch; of several ranks, the answer of rank 0 counts."""
        return False


def train_fold(job: FoldJob, report: Report, folder: RunFolder) -> FoldResult:
    """Trains a job to its end and returns its result; what the folder already holds is kept.

    On several ranks every rank calls this with the same job; rank 0 alone reports and writes. All
    draws follow from the job's seed, so a resumed run equals an uninterrupted one bit for bit.

    Raises:
        PausedError: The report has asked for it, on every rank; all finished epochs are kept.
    """
    if (result := distributed.share_object(folder.finished())) is not None:
        return result
    run = _Run.start(job, folder, report)
    if distributed.rank() == 0 and run.floors:
        report.floor(run.floors)
    if not run.history:
        run.record(report, run.before_training())
    while (stopped := run.why_stop()) is None:
        if distributed.share_object(report.must_pause()):
            raise PausedError
        run.record(report, run.train_epoch(len(run.history), report))
    result = run.result(stopped)
    if distributed.rank() == 0:
        write_json(folder.result, result)
    distributed.barrier()
    return result


@dataclass
class _Run:
    """A training under way."""

    job: FoldJob
    folder: RunFolder
    data: FoldData
    device: torch.device
    tools: StageTools
    floors: Sequence[Metrics]
    history: list[EpochRecord] = field(default_factory=list)
    steps: int = 0

    @classmethod
    def start(cls, job: FoldJob, folder: RunFolder, report: Report) -> "_Run":
        """Begins, or goes back to the last finished epoch, if there is one."""
        device, data = distributed.pick_device(), load_fold(job, _telling(report))
        check_stages(job, data)
        notes = distributed.share_object(read_notes(folder.last) if folder.last.exists() else {})
        history = [EpochRecord.from_dict(record) for record in notes.get("history", [])]
        stage = job.stage_of(max(1, len(history) - 1))
        tools = StageTools.begin(stage, data, device, restored=bool(history))
        floors = fold_floors(job) if len(data.validation_rows) else ()
        run = cls(job, folder, data, device, tools, floors, history, notes.get("steps", 0))
        if history:
            left_out = tools.step.unchanged()
            load_checkpoint(folder.last, tools.step, tools.optimizer, tools.average, left_out)
            run._keep_best()
        return run

    def before_training(self) -> EpochRecord:
        began = time.perf_counter()
        metrics = self.validate()
        return EpochRecord(
            epoch=0,
            loss=None,
            seconds=time.perf_counter() - began,
            images_per_second=None,
            lr={},
            validation=metrics,
        )

    def train_epoch(self, epoch: int, report: Report) -> EpochRecord:
        if epoch not in self.tools.stage.epochs:
            self.tools = self.tools.follow(self.job.stage_of(epoch), self.data)
        training = self.tools.stage.job.training
        began, before = time.perf_counter(), self.steps
        loss = self._optimise(epoch, report)
        trained = time.perf_counter() - began
        last = epoch == self.job.training.schedule.epochs
        due = epoch % training.schedule.eval_every == 0 or last
        metrics = self.validate() if due else None
        images = (self.steps - before) * training.batch.size
        return EpochRecord(
            epoch=epoch,
            loss=loss,
            seconds=time.perf_counter() - began,
            images_per_second=images / trained,
            lr={group["name"]: group["lr"] for group in self.tools.optimizer.param_groups},
            validation=metrics,
        )

    def _optimise(self, epoch: int, report: Report) -> float:
        """Takes the optimiser steps of one epoch (from 1) and returns the mean loss."""
        tools, step, optimizer = self.tools, self.tools.step, self.tools.optimizer
        job, schedule = self.job, tools.stage.job.training.schedule
        done_before = epoch - tools.stage.epochs.start
        # What the network itself draws (dropout) follows from the epoch, so nothing needs saving.
        torch.manual_seed(seed_for(job.seed, "network", job.fold, epoch, distributed.rank()))
        step.embedder.train_backbone(done_before >= schedule.warmup_epochs)
        step.train()
        network = _wrapped(step)
        losses = []
        batches = tools.batches.epoch(epoch, schedule.iterations_per_epoch)
        total = len(batches)
        for done, batch in enumerate(batches):
            set_learning_rates(optimizer, lr_factor(schedule, done_before + done / total))
            images = network_input(self._to_device(batch.images), tools.batches.image)
            loss = network(images, self._to_device(batch.labels))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            clip_gradients(tools.stage.job.training.optimizer, step.parameters())
            optimizer.step()
            self.steps += 1
            forget_moments(optimizer, step.method.step(self.steps))
            tools.after_step()
            losses.append(loss.detach())
            report.iteration(epoch, done + 1, total)
        tools.share()
        return _sane_mean(losses, epoch)

    def validate(self) -> Metrics | None:
        """Scores the network on the fold's validation images, if it has any."""
        with self.tools.averaged():
            return validate(self.tools.step, self.data, self.job.training.image)

    def record(self, report: Report, record: EpochRecord) -> None:
        """Keeps an epoch: its record, its checkpoint, and its weights if it is the best."""
        self.history.append(record)
        if distributed.rank() == 0:
            notes = {"history": [past.to_dict() for past in self.history], "steps": self.steps}
            tools = self.tools
            save_checkpoint(
                self.folder.last,
                tools.step,
                tools.optimizer,
                notes,
                tools.average,
                leave_out=tools.step.unchanged(),
            )
            self._keep_best()
            report.epoch(record)

    def _keep_best(self) -> None:
        """Keeps the current weights if the last epoch is the best; also after a kill between."""
        last = self.history[-1]
        scored = last.validation or not len(self.data.validation_rows)
        may_be_best = scored and last.epoch in self.job.stages()[-1].epochs
        if distributed.rank() == 0 and may_be_best and self._best() is last:
            with self.tools.averaged():
                notes = {"history": [last.to_dict()]}
                save_checkpoint(
                    self.folder.best,
                    self.tools.step,
                    None,
                    notes,
                    leave_out=self.tools.step.unchanged(),
                )

    def why_stop(self) -> str | None:
        """Returns why training is over, or None."""
        schedule = self.job.training.schedule
        if len(self.history) > schedule.epochs:
            return "epochs"
        scored = [record.epoch for record in candidates(self.job, self.history)]
        if schedule.patience is not None and scored:
            since_best = scored[::-1].index(self._best().epoch)
            if since_best >= schedule.patience:
                return "patience"
        return None

    def result(self, stopped: str) -> FoldResult:
        best, before = self._best(), self.history[0].validation
        return FoldResult.from_dict(
            {
                "job": self.job.to_dict(),
                "score": score_of(best.validation, self.job.objective) if best.validation else None,
                "best_epoch": best.epoch,
                "validation": best.validation or {},
                "untrained": before or {},
                "floor": self.floors[self.job.fold] if self.job.fold < len(self.floors) else {},
                "history": [record.to_dict() for record in self.history],
                "stopped": stopped,
                "versions": versions_of(PACKAGES),
                "ranks": distributed.world_size(),
                "threads": torch.get_num_threads(),
            }
        )

    def _best(self) -> EpochRecord:
        """The best epoch; without validation, the last one."""
        return best_record(self.job, self.history) or self.history[-1]

    def _to_device(self, tensor: Tensor) -> Tensor:
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor


def _telling(report: Report) -> Callable[[int, int], None]:
    """Tells the report about features, and pauses between parts of them if it asks for that."""

    def tell(done: int, total: int) -> None:
        report.features(done, total)
        if distributed.world_size() == 1 and report.must_pause():
            raise PausedError

    return tell


def _wrapped(step: TrainingStep) -> nn.Module:
    """The step under DistributedDataParallel where there are several ranks."""
    if distributed.world_size() == 1:
        return step
    return DistributedDataParallel(step)


def _sane_mean(losses: list[Tensor], epoch: int) -> float:
    values = torch.stack(losses).double()
    sane = values.abs() < EXPLODED  # false for what is not a number
    if not sane.all():
        first = int((~sane).nonzero()[0])
        raise DivergedError(
            f"The loss must stay a number below {EXPLODED:g}, but was {float(values[first]):g} in "
            f"iteration {first + 1} of epoch {epoch}; try smaller learning rates or scales."
        )
    return float(values.mean())

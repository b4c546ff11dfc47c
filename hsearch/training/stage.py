"""What one stage of a training works with: network, optimiser, average and batches."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch.optim import Optimizer

import hsearch.distributed as distributed
from hsearch.data.batches import TrainingBatches
from hsearch.spec import Stage
from hsearch.training.average import WeightAverage
from hsearch.training.optimizer import build_optimizer
from hsearch.training.setup import FoldData, build_batches, build_method, build_step
from hsearch.training.step import TrainingStep


@dataclass(frozen=True)
class StageTools:
    """A stage that can be trained.

    Attributes:
        stage: Its epochs and settings.
        step: The network with the method as the stage sets it.
        optimizer: New at the beginning of the stage.
        average: Of the network's weights, if the stage keeps it.
        batches: As the stage draws them.
    """

    stage: Stage
    step: TrainingStep
    optimizer: Optimizer
    average: WeightAverage | None
    batches: TrainingBatches

    @classmethod
    def begin(
        cls, stage: Stage, data: FoldData, device: torch.device, *, restored: bool
    ) -> "StageTools":
        """Returns a stage with the job's initial weights, unless a checkpoint will replace them."""
        step = build_step(
            stage.job, data.hierarchy, device, restored=restored, cached=data.feature_shape
        )
        distributed.broadcast_from_first(step)
        return cls._for(stage, data, step)

    def follow(self, stage: Stage, data: FoldData) -> "StageTools":
        """Returns the stage after this one, with its weights or their average."""
        if self.average is not None:
            self.average.adopt()
        old = self.step
        method = build_method(stage.job, data.hierarchy, old.embedder)
        method.load_state_dict(old.method.state_dict())
        device = next(old.parameters()).device
        return self._for(stage, data, TrainingStep(old.embedder, method).to(device))

    @classmethod
    def _for(cls, stage: Stage, data: FoldData, step: TrainingStep) -> "StageTools":
        spec = stage.job.training.optimizer
        return cls(
            stage=stage,
            step=step,
            optimizer=build_optimizer(spec, step.embedder, step.method),
            average=None if spec.ema is None else WeightAverage(step, spec.ema, step.unchanged()),
            batches=build_batches(stage.job, data, step.method.views),
        )

    def averaged(self) -> AbstractContextManager[None]:
        """Gives the network the weights that it is judged by, for a while."""
        return nullcontext() if self.average is None else self.average.in_place()

    def after_step(self) -> None:
        """Moves the average after an optimiser step."""
        if self.average is not None:
            self.average.update()

    def share(self) -> None:
        """Gives every rank the weights of rank 0: running statistics may differ between them."""
        distributed.broadcast_from_first(self.step)
        if self.average is not None:
            self.average.share()

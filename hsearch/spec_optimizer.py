"""The optimiser and the schedule of a training, as specs."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from hsearch.spec_base import Count, NonNegative, Positive, Share, Spec, several

ByGroup = dict[str, NonNegative]


def _counts(value: object) -> object:
    if isinstance(value, str):
        raise PydanticCustomError("counts", "write whole numbers with commas between")
    return several(value)


Counts = Annotated[tuple[Count, ...], BeforeValidator(_counts)]


class OptimizerSpec(Spec):
    """The optimiser and the learning rate of each parameter group.

    Attributes:
        name: Which optimiser of `torch.optim`.
        lr: By group: `backbone` is required and also serves `head` where that is not given.
            A method's own groups, such as `proxies`, default to `backbone` times the method's
            published factor.
        weight_decay: For all groups; or by group, where `backbone` is required and serves the
            others that are not given.
        momentum: Of sgd and rmsprop.
        nesterov: Of sgd with momentum.
        eps: Of adam, adamw and rmsprop.
        clip_norm: Largest norm of the whole gradient.
        clip_value: Largest absolute value of a gradient entry.
        ema: Decay, per step, of a moving average of all weights, with which the network is then
            validated, kept and tested; in the first steps n the decay is (1 + n) / (10 + n) where
            that is less. Null for none.
    """

    later: ClassVar[tuple[str, ...]] = ("ema",)

    name: Literal["adam", "adamw", "rmsprop", "sgd"] = "adamw"
    lr: ByGroup
    weight_decay: NonNegative | ByGroup = 1e-4
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    eps: Positive = 1e-8
    clip_norm: Positive | None = None
    clip_value: Positive | None = None
    ema: Share | None = None

    @model_validator(mode="after")
    def _backbone_is_named(self) -> Self:
        for name in ("lr", "weight_decay"):
            value = getattr(self, name)
            if isinstance(value, dict) and "backbone" not in value:
                raise ValueError(f"`optimizer.{name}` must name the group `backbone`")
        return self

    @model_validator(mode="after")
    def _nesterov_has_momentum(self) -> Self:
        if self.nesterov and (self.name != "sgd" or not self.momentum):
            raise ValueError(
                "`optimizer.nesterov` needs sgd and an `optimizer.momentum` above 0, but got "
                f"{self.name} and {self.momentum}; set optimizer.nesterov=false"
            )
        return self


class ScheduleSpec(Spec):
    """How long and how fast to train.

    Attributes:
        epochs: The most epochs.
        iterations_per_epoch: Optimiser steps of one epoch; null for an epoch of the sampler.
        warmup_epochs: First epochs in which only head and proxies train.
        warmup_counts: Whether the epochs of `lr` count from the start of the warm-up, not its end.
        lr: `constant`, `cosine` (to `final_factor` over `epochs`; a warm-up that does not count
            cuts off the curve's end), `one_cycle` (on a cosine from `cycle_from` up to 1 in the
            first share `cycle_rise` of `epochs`, then on another down to `final_factor`), `step`
            (times `step_factor` every `step_epochs`) or `milestones` (times `step_factor` after
            each of them).
        cycle_rise: Share of the epochs in which the rates of `one_cycle` rise.
        cycle_from: Factor of the rates with which `one_cycle` begins.
        milestones: Numbers of epochs; other `lr` than `milestones` ignore them.
        rate_warmup_epochs: First epochs in which the rates rise linearly from `rate_warmup_from`
            times their value to what `lr` says at the end of these epochs.
        eval_every: Epochs between two validations; the last epoch is always validated.
        patience: Validations without improvement before stopping; null never stops early.
    """

    later: ClassVar[tuple[str, ...]] = ("cycle_rise", "cycle_from")

    epochs: Count = 30
    iterations_per_epoch: Count | None = 100
    warmup_epochs: Annotated[int, Field(ge=0)] = 0
    warmup_counts: bool = False
    lr: Literal["constant", "cosine", "one_cycle", "step", "milestones"] = "constant"
    final_factor: NonNegative = 0.0
    cycle_rise: Share = 0.3
    cycle_from: NonNegative = 0.04
    step_epochs: Count = 10
    step_factor: Positive = 0.5
    milestones: Counts = ()
    rate_warmup_epochs: Annotated[int, Field(ge=0)] = 0
    rate_warmup_from: NonNegative = 0.0
    eval_every: Count = 1
    patience: Count | None = None

    @model_validator(mode="after")
    def _milestones_are_given(self) -> Self:
        if self.lr == "milestones" and not self.milestones:
            raise ValueError(
                "`schedule.lr: milestones` needs `schedule.milestones`, but got none; give numbers "
                "of epochs with commas between"
            )
        return self

    @model_validator(mode="after")
    def _warm_ups_end(self) -> Self:
        for name in ("warmup_epochs", "rate_warmup_epochs"):
            value = getattr(self, name)
            if value and value >= self.epochs:
                raise ValueError(
                    f"`schedule.{name}` must be below `schedule.epochs`, but got {value} and "
                    f"{self.epochs}; give a longer --epochs or set schedule.{name}=0"
                )
        return self

"""What a training is: frozen, validated values that survive a round trip through JSON."""

from pathlib import PurePath
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from hsearch.addresses import STORE_SUFFIX, is_address
from hsearch.folds import ALL_CLASSES, Splits
from hsearch.spec_base import Count, NonNegative, Positive
from hsearch.spec_base import Spec as Spec
from hsearch.spec_batch import BatchSpec as BatchSpec
from hsearch.spec_image import ImageSpec as ImageSpec

KnobValue = bool | int | float | str

ByGroup = dict[str, NonNegative]


def _words(value: object) -> object:
    """Reads `a,b` as several words."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return _several(value)


def _counts(value: object) -> object:
    if isinstance(value, str):
        raise PydanticCustomError("counts", "write whole numbers with commas between")
    return _several(value)


def _several(value: object) -> object:
    """Reads a single value as one of several."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Counts = Annotated[tuple[Count, ...], BeforeValidator(_counts)]


class ModelSpec(Spec):
    """The network that turns an image into a feature vector.

    Attributes:
        backbone: Any timm name, such as `resnet50.tv_in1k`, or `bn_inception`.
        backbone_args: Further arguments of `timm.create_model`.
        weights: `pretrained` (on ImageNet), `random`, or the path of a safetensors or
            `weights_only` torch file.
        pooling: Of the spatial features; `avg+max` adds both; `token` is a transformer's own.
        head: `linear`, `layernorm-linear`, `mlp` (one hidden layer as wide as the features),
            `layernorm` or `none` (embedding = pooled features).
        head_init: Of the linear layers.
        embedding_dim: Length of an embedding; without a linear layer that of the features.
        batch_norm: `frozen` (normalises with the running statistics, which stay as they are),
            `trained` (with the statistics of the rank's own part of the batch) or `synchronised`
            (with those of the whole batch over all ranks). Scale and shift are always trained.
        frozen: Parts of the backbone that keep their weights, by the beginnings of their names in
            timm, such as `patch_embed` or `layer1`.
    """

    backbone: str
    backbone_args: dict[str, KnobValue] = Field(default_factory=dict)
    weights: str = "pretrained"
    pooling: Literal["avg", "max", "avg+max", "token"] = "avg"
    head: Literal["linear", "layernorm-linear", "mlp", "layernorm", "none"] = "linear"
    head_init: Literal["default", "kaiming", "orthogonal"] = "default"
    embedding_dim: Count = 128
    batch_norm: Literal["frozen", "trained", "synchronised"] = "frozen"
    frozen: Words = ()


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
    """

    name: Literal["adam", "adamw", "rmsprop", "sgd"] = "adamw"
    lr: ByGroup
    weight_decay: NonNegative | ByGroup = 1e-4
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    eps: Positive = 1e-8
    clip_norm: Positive | None = None
    clip_value: Positive | None = None

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
            cuts off the curve's end), `step` (times `step_factor` every `step_epochs`) or
            `milestones` (times `step_factor` after each of them).
        milestones: Numbers of epochs; other `lr` than `milestones` ignore them.
        rate_warmup_epochs: First epochs in which the rates rise linearly from `rate_warmup_from`
            times their value to what `lr` says at the end of these epochs.
        eval_every: Epochs between two validations; the last epoch is always validated.
        patience: Validations without improvement before stopping; null never stops early.
    """

    epochs: Count = 30
    iterations_per_epoch: Count | None = 100
    warmup_epochs: Annotated[int, Field(ge=0)] = 0
    warmup_counts: bool = False
    lr: Literal["constant", "cosine", "step", "milestones"] = "constant"
    final_factor: NonNegative = 0.0
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


class TrainingSpec(Spec):
    """Everything but the method and the data that decides how a network is trained: a recipe."""

    recipe: str
    model: ModelSpec
    image: ImageSpec
    batch: BatchSpec
    optimizer: OptimizerSpec
    schedule: ScheduleSpec


class MethodSpec(Spec):
    """A method by name, with the values of all its knobs."""

    name: str
    knobs: dict[str, KnobValue] = Field(default_factory=dict)


class FoldJob(Spec):
    """Train one method with one set of knob values on one fold.

    Attributes:
        data: Name, path or address of the store.
        data_digest: Fingerprint of the store's content, so that a resume notices other data.
        method: The method with its knob values.
        training: The resolved recipe.
        splits: How classes are split.
        fold: Which fold, from 0; `ALL_CLASSES` trains on every class but those of the test.
        seed: Root of every random draw of the job.
        objective: The metric that decides which epoch is the best.
    """

    data: str
    data_digest: str
    method: MethodSpec
    training: TrainingSpec
    splits: Splits = "disjoint"
    fold: Annotated[int, Field(ge=0, le=ALL_CLASSES)] = 0
    seed: Annotated[int, Field(ge=0)] = 0
    objective: str = "map_at_r"

    @property
    def data_name(self) -> str:
        """The name of the data, without the folder or address of the store."""
        path = self.data.partition("?")[0] if is_address(self.data) else self.data
        return PurePath(path).name.removesuffix(STORE_SUFFIX)

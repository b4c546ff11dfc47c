"""What a training is: frozen, validated values that survive a round trip through JSON."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    FieldSerializationInfo,
    SerializerFunctionWrapHandler,
    field_serializer,
    model_validator,
)

from hsearch.addresses import STORE_SUFFIX, is_address
from hsearch.errors import ConfigError
from hsearch.folds import ALL_CLASSES, Splits
from hsearch.spec_base import FOR_DIGEST, Count, Positive, several
from hsearch.spec_base import KnobValue as KnobValue
from hsearch.spec_base import Spec as Spec
from hsearch.spec_batch import BatchSpec as BatchSpec
from hsearch.spec_image import ImageSpec as ImageSpec
from hsearch.spec_optimizer import OptimizerSpec as OptimizerSpec
from hsearch.spec_optimizer import ScheduleSpec as ScheduleSpec
from hsearch.spec_stage import StageSpec as StageSpec
from hsearch.spec_stage import merged, stage_lengths


def _words(value: object) -> object:
    """Reads `a,b` as several words."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return several(value)


def _none_is_empty(value: object) -> object:
    return {} if value is None else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


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
        regime: What of the backbone trains: nothing (`frozen`: it stays in evaluation mode, batch
            norms included, and its output is cached), low-rank adapters beside its linear and
            convolution layers (`lora`), or everything (`full`).
        lora_rank: Rank of the adapters, at least 1; other regimes ignore it.
        lora_alpha: Their output is scaled by `lora_alpha / lora_rank`; other regimes ignore it.
    """

    later: ClassVar[tuple[str, ...]] = ("regime", "lora_rank", "lora_alpha")

    backbone: str
    backbone_args: dict[str, KnobValue] = Field(default_factory=dict)
    weights: str = "pretrained"
    pooling: Literal["avg", "max", "avg+max", "token"] = "avg"
    head: Literal["linear", "layernorm-linear", "mlp", "layernorm", "none"] = "linear"
    head_init: Literal["default", "kaiming", "orthogonal"] = "default"
    embedding_dim: Count = 128
    batch_norm: Literal["frozen", "trained", "synchronised"] = "frozen"
    frozen: Words = ()
    regime: Literal["frozen", "lora", "full"] = "full"
    lora_rank: Count = 8
    lora_alpha: Positive = 16.0


LAST = "last"
"""The name of the stage that comes last, or alone."""


class TrainingSpec(Spec):
    """Everything but the method and the data that decides how a network is trained: a recipe.

    Attributes:
        stages: By name, parts of the training that come before the last one, which has the
            recipe's own settings. Every stage goes on from the weights of the one before, the
            averaged ones if it kept them, with a new optimiser. Null is none.
    """

    later: ClassVar[tuple[str, ...]] = ("stages",)

    recipe: str
    model: ModelSpec
    image: ImageSpec
    batch: BatchSpec
    optimizer: OptimizerSpec
    schedule: ScheduleSpec
    stages: Annotated[dict[str, StageSpec], BeforeValidator(_none_is_empty)] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _stages_fit(self) -> Self:
        if LAST in self.stages:
            raise ValueError(
                f"A stage must have another name than `{LAST}`, which is the rest of the training; "
                "its settings are those of the recipe itself"
            )
        self.parts()
        return self

    @field_serializer("stages", mode="wrap")
    def _in_order(
        self,
        stages: dict[str, StageSpec],
        dump: SerializerFunctionWrapHandler,
        info: FieldSerializationInfo,
    ) -> object:
        """As pairs in a digest, which does not see the order of names."""
        values = dump(stages)
        return list(values.items()) if info.context == FOR_DIGEST else values

    def parts(self) -> "list[tuple[int, TrainingSpec]]":
        """Returns length in epochs and settings of every stage, the last one included."""
        named = [*self.stages.items(), (LAST, None)]
        return [
            (length, self._at(name, stage, length))
            for (name, stage), length in zip(named, self._lengths(), strict=True)
        ]

    @property
    def batch_sizes(self) -> list[int]:
        """Of all stages in their order, the last one included."""
        return [training.batch.size for _, training in self.parts()]

    def _lengths(self) -> list[int]:
        shares = [stage.share for stage in self.stages.values()]
        return stage_lengths(self.schedule.epochs, shares)

    def _at(self, name: str, stage: StageSpec | None, length: int) -> "TrainingSpec":
        """The settings of a stage, the recipe's own for None, as a training of their own."""
        if not self.stages:
            return self
        own = {} if stage is None else stage.settings()
        values = merged({**self.to_dict(), "stages": {}}, own)
        try:
            return TrainingSpec.from_dict(merged(values, {"schedule": {"epochs": length}}))
        except ConfigError as error:
            raise ValueError(f"In the stage `{name}`: {str(error).removesuffix('.')}") from None


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

    def stages(self) -> "tuple[Stage, ...]":
        """Returns the stages of the training in their order; without any, the job as the only one.

        The knobs of a stage are not checked here.
        """
        found: list[Stage] = []
        own = [(name, stage.method) for name, stage in self.training.stages.items()]
        first = 1
        parts = zip([*own, (LAST, {})], self.training.parts(), strict=True)
        for (name, knobs), (length, training) in parts:
            method = MethodSpec(name=self.method.name, knobs={**self.method.knobs, **knobs})
            job = self.model_copy(update={"training": training, "method": method})
            found.append(Stage(name, range(first, first + length), job))
            first += length
        return tuple(found)

    def stage_of(self, epoch: int) -> "Stage":
        """Returns the stage that an epoch (from 1) belongs to."""
        return next(stage for stage in self.stages() if epoch in stage.epochs)


@dataclass(frozen=True)
class Stage:
    """A part of a training.

    Attributes:
        name: As the recipe calls it; the last one is called `LAST`.
        epochs: Their numbers in the whole training, from 1.
        job: The whole job with the settings and knobs of this part, as if it were alone.
    """

    name: str
    epochs: range
    job: FoldJob

"""What a training is: frozen, validated values that survive a round trip through JSON."""

import hashlib
import json
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hsearch.errors import ConfigError, did_you_mean
from hsearch.folds import NUM_FOLDS, Splits

KnobValue = bool | int | float | str

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Spec(BaseModel):
    """Base of all specs: frozen, strict about types, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def from_dict(cls, values: object) -> Self:
        """Validates plain values as they come out of JSON or YAML; the error names the key."""
        try:
            return cls.model_validate_json(json.dumps(values))
        except ValidationError as error:
            raise ConfigError(_sentence(cls, error)) from None

    def to_dict(self) -> dict[str, object]:
        """Returns plain values, ready for JSON."""
        return self.model_dump(mode="json")

    def differences(self, other: Self) -> dict[str, tuple[object, object]]:
        """Returns both values of every setting that differs, by dotted name."""
        return _differences(self.to_dict(), other.to_dict())

    def digest(self) -> str:
        """Returns 12 hex digits that differ whenever any value differs."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class ModelSpec(Spec):
    """The network that turns an image into a feature vector.

    Attributes:
        backbone: Any timm name, such as `resnet50.tv_in1k`, or `bn_inception`.
        backbone_args: Further arguments of `timm.create_model`.
        weights: `pretrained` (on ImageNet), `random`, or the path of a safetensors or
            `weights_only` torch file.
        pooling: Of the spatial features; `avg+max` adds both; `token` is a transformer's own.
        head: `linear`, `layernorm-linear`, `mlp` (one hidden layer as wide as the features) or
            `none` (embedding = pooled features).
        head_init: Of the linear layers.
        embedding_dim: Length of an embedding; ignored by no head, so `none` forbids it.
        batch_norm: `frozen` (normalises with the running statistics, which stay as they are),
            `trained` (with the statistics of the rank's own part of the batch) or `synchronised`
            (with those of the whole batch over all ranks). Scale and shift are always trained.
    """

    backbone: str
    backbone_args: dict[str, KnobValue] = {}
    weights: str = "pretrained"
    pooling: Literal["avg", "max", "avg+max", "token"] = "avg"
    head: Literal["linear", "layernorm-linear", "mlp", "none"] = "linear"
    head_init: Literal["default", "kaiming", "orthogonal"] = "default"
    embedding_dim: Count = 128
    batch_norm: Literal["frozen", "trained", "synchronised"] = "frozen"


class ImageSpec(Spec):
    """How stored images become network input.

    Training: resize the short side, RandomResizedCrop(crop, scale, ratio), flip.
    Evaluation: resize the short side, centre crop.

    Attributes:
        resize: Short side in pixels before cropping.
        crop: Side of the square network input.
        scale: Range of the cropped share of the area.
        ratio: Range of the crop's aspect ratio.
        flip: Probability of a horizontal flip.
        mean: Per channel, subtracted after scaling to 0..1.
        std: Per channel, divided by.
        range_max: Value of a full channel before mean and std: 1, or 255 for Caffe-style weights.
        channels: Order of the channels that the network wants.
    """

    resize: Count = 256
    crop: Count = 224
    scale: tuple[Positive, Positive] = (0.08, 1.0)
    ratio: tuple[Positive, Positive] = (3 / 4, 4 / 3)
    flip: Annotated[float, Field(ge=0, le=1)] = 0.5
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[Positive, Positive, Positive] = (0.229, 0.224, 0.225)
    range_max: Literal[1, 255] = 1
    channels: Literal["rgb", "bgr"] = "rgb"

    @model_validator(mode="after")
    def _ranges_are_ordered(self) -> Self:
        for name in ("scale", "ratio"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"`image.{name}` must be [low, high], but got [{low}, {high}]")
        if self.scale[1] > 1:
            raise ValueError(f"`image.scale` must stay within 0..1, but got {self.scale[1]}")
        if self.crop > self.resize:
            raise ValueError(
                f"`image.crop` must not exceed `image.resize`, but {self.crop} > {self.resize}"
            )
        return self


class OptimizerSpec(Spec):
    """The optimiser and the learning rate of each parameter group.

    Attributes:
        name: Which optimiser of `torch.optim`.
        lr: By group: `backbone` is required and also serves `head` where that is not given.
            A method's own groups, such as `proxies`, default to `backbone` times the method's
            published factor.
        weight_decay: For all groups.
        momentum: Of sgd and rmsprop.
        nesterov: Of sgd.
        eps: Of adam, adamw and rmsprop.
        clip_norm: Largest norm of the whole gradient.
        clip_value: Largest absolute value of a gradient entry.
    """

    name: Literal["adam", "adamw", "rmsprop", "sgd"] = "adamw"
    lr: dict[str, NonNegative]
    weight_decay: NonNegative = 1e-4
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    eps: Positive = 1e-8
    clip_norm: Positive | None = None
    clip_value: Positive | None = None

    @model_validator(mode="after")
    def _backbone_has_a_rate(self) -> Self:
        if "backbone" not in self.lr:
            raise ValueError("`optimizer.lr` must name the group `backbone`")
        return self


class ScheduleSpec(Spec):
    """How long and how fast to train. An epoch is a fixed number of iterations.

    Attributes:
        epochs: The most epochs.
        iterations_per_epoch: Optimiser steps of one epoch.
        warmup_epochs: First epochs in which only head and proxies train.
        lr: `constant`, `cosine` (to `final_factor` over all iterations) or `step` (times
            `step_factor` every `step_epochs`). Warm-up epochs stand still at the start.
        eval_every: Epochs between two validations; the last epoch is always validated.
        patience: Validations without improvement before stopping; null never stops early.
    """

    epochs: Count = 30
    iterations_per_epoch: Count = 100
    warmup_epochs: Annotated[int, Field(ge=0)] = 0
    lr: Literal["constant", "cosine", "step"] = "constant"
    final_factor: NonNegative = 0.0
    step_epochs: Count = 10
    step_factor: Positive = 0.5
    eval_every: Count = 1
    patience: Count | None = None


class BatchSpec(Spec):
    """How batches are drawn.

    Attributes:
        size: Images of one optimiser step over all ranks.
        sampler: `m_per_class` (m images of each of size / m classes) or `class_balanced`
            (every image of a uniformly drawn class).
        per_class: The m of `m_per_class`.
    """

    size: Count = 32
    sampler: Literal["m_per_class", "class_balanced"] = "m_per_class"
    per_class: Count = 4

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        if self.sampler == "m_per_class" and self.size % self.per_class:
            raise ValueError(
                f"`batch.size` must be a multiple of `batch.per_class`, but got {self.size} and "
                f"{self.per_class}"
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
    knobs: dict[str, KnobValue] = {}


class FoldJob(Spec):
    """Train one method with one set of knob values on one fold.

    Attributes:
        data: Name or path of the store.
        data_digest: Fingerprint of the store's content, so that a resume notices other data.
        method: The method with its knob values.
        training: The resolved recipe.
        splits: How classes are split.
        fold: Which fold, from 0.
        seed: Root of every random draw of the job.
    """

    data: str
    data_digest: str
    method: MethodSpec
    training: TrainingSpec
    splits: Splits = "disjoint"
    fold: Annotated[int, Field(ge=0, lt=NUM_FOLDS)] = 0
    seed: Annotated[int, Field(ge=0)] = 0


def _differences(one: object, other: object, name: str = "") -> dict[str, tuple[object, object]]:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return {} if one == other else {name: (one, other)}
    found: dict[str, tuple[object, object]] = {}
    for key in {**one, **other}:
        found |= _differences(one.get(key), other.get(key), f"{name}.{key}".lstrip("."))
    return found


_KNOB_TYPES = {"bool", "int", "float", "str"}


_HINTS = {
    "bool_type": "; write true or false",
    "dict_type": "; it has parts, so set {key}.PART",
    "model_type": "; it has parts, so set {key}.PART",
    "tuple_type": "; write numbers with commas between",
}


def _sentence(cls: type[BaseModel], error: ValidationError) -> str:
    """Says the first fault of a validation in one sentence, with the key's dotted name."""
    first, *others = error.errors()
    location = [str(part) for part in first["loc"]]
    if others and location[-1] in _KNOB_TYPES:  # one fault per member of KnobValue
        key = ".".join(location[:-1])
        return f"The setting '{key}' must be true, false, a number or text, not {first['input']!r}."
    key = ".".join(location)
    if first["type"] == "extra_forbidden":
        fields = _fields_at(cls, location[:-1])
        return f"Unknown setting '{key}'; {did_you_mean(location[-1], fields)}"
    if first["type"] == "missing":
        return f"The setting '{key}' is required, but was not given."
    hint = _HINTS.get(first["type"], "").format(key=key)
    reason = first["msg"].removeprefix("Value error, ") + hint
    if not location or first["type"] == "value_error":
        return f"{reason}."
    return f"The setting '{key}' cannot be {first['input']!r}: {reason}."


def _fields_at(cls: type[BaseModel], location: list[str]) -> list[str]:
    for part in location:
        annotation = cls.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        cls = annotation
    return list(cls.model_fields)

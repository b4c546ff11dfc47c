"""Stages: parts of a training with settings of their own."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import Field, JsonValue, model_validator

from hsearch.spec_base import KnobValue, Share, Spec

Settings = dict[str, JsonValue]

UNCHANGED = (
    "schedule.epochs",
    "schedule.patience",
    *(f"image.{name}" for name in ("resize", "crop", "evaluated")),
    *(f"image.{name}" for name in ("mean", "std", "range_max", "channels", "interpolation")),
    "image.cached_views",
)
"""Settings of the whole training: its length, and how images come to the network."""


class StageSpec(Spec):
    """A part of a training that comes before its last one.

    What it does not set is as in the rest of the recipe: of `optimizer: {lr: {backbone: 0.001}}`
    those of other groups that the recipe names stay as they are.

    Attributes:
        share: Of the epochs of the whole training, `schedule.epochs`; at least one epoch.
        method: Values of knobs of the method. Only knobs that are fractions can change from stage
            to stage, as others may decide the shape of the network.
        image: How training images are cropped and changed, but not their sizes and values.
        batch: Settings of the batches.
        optimizer: Settings of the optimiser.
        schedule: Settings of the schedule but `epochs` and `patience`; its epochs are those of the
            stage.
    """

    share: Share
    method: dict[str, KnobValue] = Field(default_factory=dict)
    image: Settings = Field(default_factory=dict)
    batch: Settings = Field(default_factory=dict)
    optimizer: Settings = Field(default_factory=dict)
    schedule: Settings = Field(default_factory=dict)

    @model_validator(mode="after")
    def _leaves_the_whole_alone(self) -> Self:
        for setting in UNCHANGED:
            section, name = setting.split(".")
            if name in getattr(self, section):
                hint = " (a stage is as long as its `share`)" if name == "epochs" else ""
                raise ValueError(
                    f"`{setting}` is the same in all stages, but a stage sets it; leave it out"
                    + hint
                )
        return self

    def settings(self) -> dict[str, Any]:
        """Returns the settings of its sections."""
        return self.model_dump(mode="json", include={"image", "batch", "optimizer", "schedule"})


def stage_lengths(epochs: int, shares: Sequence[float]) -> list[int]:
    """Returns the epochs of every stage with such a share, and last those of the rest.

    Raises:
        ValueError: There are not enough epochs for all of them, or the shares leave no rest.
    """
    lengths = [max(1, round(share * epochs)) for share in shares]
    rest = epochs - sum(lengths)
    if rest < 1:
        raise ValueError(
            "The stages must leave an epoch for the rest of the training, but take "
            f"{sum(lengths)} of {epochs}; give a longer --epochs, or smaller stages.NAME.share"
        )
    return [*lengths, rest]


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns nested values with the given ones in their place; both stay as they are.

    A weight decay for all groups, of which some change, stays that of the others.
    """
    found = dict(values)
    for key, value in changes.items():
        old = found.get(key)
        if key == "weight_decay" and isinstance(old, int | float):
            old = {"backbone": old}
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            value = merged(old, value)
        found[key] = value
    return found

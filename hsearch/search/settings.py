"""Which dotted settings of a method and its recipe can be searched, and what each accepts."""

import json
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from hsearch.errors import ConfigError, did_you_mean
from hsearch.methods import Knob, knobs_of, load_method
from hsearch.spec import KnobValue, TrainingSpec
from hsearch.spec_base import Share
from hsearch.spec_stage import UNCHANGED


@dataclass(frozen=True)
class SearchableSetting:
    """One setting that a search may vary.

    Attributes:
        type: `bool`, `int`, `float` or `str`.
        published: The method's published value; null where the recipe decides.
        check: Returns a value as the setting's type, or raises a ConfigError.
    """

    type: type[bool] | type[int] | type[float] | type[str]
    published: KnobValue | None
    check: Callable[[KnobValue], KnobValue]


def searchable_settings(method: str, stages: Iterable[str] = ()) -> dict[str, SearchableSetting]:
    """Returns all settings that a search of the method may vary, by dotted name.

    Args:
        method: Its name.
        stages: Names of stages of the training, beside those that the method asks for.
    """
    loss = load_method(method)
    found = {f"method.{name}": _of_knob(method, knob) for name, knob in knobs_of(loss).items()}
    groups = ["backbone", "head", *(group for group in loss.groups if group != "head")]
    for section, holder in TrainingSpec.model_fields.items():
        spec = holder.annotation
        if isinstance(spec, type) and issubclass(spec, BaseModel):
            for name, field in spec.model_fields.items():
                found |= _of_field(f"{section}.{name}", field, groups)
    return found | _of_stages({**loss.wishes.get("stages", {}), **dict.fromkeys(stages)}, found)


def _of_stages(
    stages: Iterable[str], settings: Mapping[str, SearchableSetting]
) -> dict[str, SearchableSetting]:
    """What can be searched of stages: their share, and all but models.

    Of the method's knobs only fractions can change between stages.
    """
    found = {}
    for stage in stages:
        share = f"stages.{stage}.share"
        found[share] = SearchableSetting(float, None, _checker(share, Share))
        for name, setting in settings.items():
            section = name.split(".")[0]
            changes = section != "model" and name not in UNCHANGED
            if changes and (section != "method" or setting.type is float):
                found[f"stages.{stage}.{name}"] = replace(setting, published=None)
    return found


def find_setting(settings: Mapping[str, SearchableSetting], key: str) -> SearchableSetting:
    """Returns the setting of that dotted name, or raises a ConfigError with the nearest one."""
    if key in settings:
        return settings[key]
    section = key.split(".")[0]
    near = [name for name in settings if name.split(".")[0] == section]
    valid = near or sorted({name.split(".")[0] + ".…" for name in settings})
    raise ConfigError(f"unknown knob '{key}'; {did_you_mean(key, valid)}")


def _of_knob(method: str, knob: Knob) -> SearchableSetting:
    return SearchableSetting(knob.type, knob.default, lambda value: knob.check(method, value))


def _of_field(key: str, field: FieldInfo, groups: list[str]) -> dict[str, SearchableSetting]:
    """The settings of one field: one per group for the learning rates, none if it is no scalar."""
    if key == "optimizer.lr":
        rate = get_args(field.annotation)[1]
        return {
            f"{key}.{group}": SearchableSetting(float, None, _checker(f"{key}.{group}", rate))
            for group in groups
        }
    kind = _scalar_type(field.annotation)
    if kind is None:
        return {}
    return {key: SearchableSetting(kind, None, _checker(key, Annotated[field.annotation, field]))}


def _scalar_type(annotation: object) -> type[bool] | type[int] | type[float] | type[str] | None:
    """The plain type behind `Annotated`, `Literal`, `| None` and `| dict`; null for others."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        others = [arg for arg in get_args(annotation) if arg is not type(None)]
        kinds = [arg for arg in others if get_origin(arg) is not dict]
        return _scalar_type(kinds[0]) if len(kinds) == 1 else None
    if origin is Annotated:
        return _scalar_type(get_args(annotation)[0])
    if origin is Literal:
        return _scalar_type(type(get_args(annotation)[0]))
    return next((kind for kind in (bool, int, float, str) if annotation is kind), None)


def _checker(
    key: str,
    annotation: Any,  # noqa: ANN401 (a type form, for which 3.11 has no name)
) -> Callable[[KnobValue], KnobValue]:
    def check(value: KnobValue) -> KnobValue:
        adapter: TypeAdapter[KnobValue] = TypeAdapter(annotation, config=ConfigDict(strict=True))
        try:
            return adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise ConfigError(f"The setting '{key}' cannot be {value!r}: {reason}.") from None

    return check

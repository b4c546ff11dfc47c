"""The base of all specs: frozen values, strict about types, whose faults are said in a sentence."""

import hashlib
import json
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from hsearch.errors import ConfigError, did_you_mean

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
KnobValue = bool | int | float | str


def several(value: object) -> object:
    """Reads a single value as one of several."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


FOR_DIGEST = {"digest": True}
"""Context of a dump that leaves out what a spec had no word for when digests were first kept."""


class Spec(BaseModel):
    """Base of all specs: frozen, strict about types, and closed to unknown keys.

    Class attributes:
        later: Settings that came when digests were already kept: switched off, as they are by
            default, they leave no trace in one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    later: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_later(
        self, dump: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        values: dict[str, Any] = dump(self)
        if info.context == FOR_DIGEST:
            for name in self.later:
                if getattr(self, name) == type(self).model_fields[name].get_default(
                    call_default_factory=True
                ):
                    del values[name]
        return values

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
        text = json.dumps(self.model_dump(mode="json", context=FOR_DIGEST), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _differences(one: object, other: object, name: str = "") -> dict[str, tuple[object, object]]:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return {} if one == other else {name: (one, other)}
    found: dict[str, tuple[object, object]] = {}
    for key in {**one, **other}:
        found |= _differences(one.get(key), other.get(key), f"{name}.{key}".lstrip("."))
    return found


_KNOB_TYPES = {"bool", "int", "float", "str"}
_NUMBER, _BY_GROUP = "constrained-float", "dict[str,constrained-float]"  # names of pydantic

_HINTS = {
    "bool_type": "; write true or false",
    "dict_type": "; it has parts, so set {key}.PART",
    "model_type": "; it has parts, so set {key}.PART",
    "tuple_type": "; write numbers with commas between",
}


def _sentence(cls: type[BaseModel], error: ValidationError) -> str:
    """Says the first fault of a validation in one sentence, with the key's dotted name."""
    first, *others = error.errors()
    if _NUMBER in first["loc"] and isinstance(first["input"], dict):
        first = others[-1]  # what is wrong inside the mapping, not that it is no number
    location = [str(part) for part in first["loc"] if part not in (_NUMBER, _BY_GROUP)]
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
        return reason if reason.endswith("?") else f"{reason}."
    return f"The setting '{key}' cannot be {first['input']!r}: {reason}."


def _fields_at(cls: type[BaseModel], location: list[str]) -> list[str]:
    parts = iter(location)
    for part in parts:
        annotation = cls.model_fields[part].annotation
        if get_origin(annotation) is dict:  # of specs by name
            annotation = get_args(annotation)[1]
            next(parts, None)
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        cls = annotation
    return list(cls.model_fields)

"""Knobs of a method, read from the signature and docstring of its constructor."""

import inspect
import math
import re
from dataclasses import dataclass
from typing import Literal, get_args, get_origin, get_type_hints

from hsearch.errors import ConfigError
from hsearch.methods._base import Method, require

KnobValue = bool | int | float | str


@dataclass(frozen=True)
class Knob:
    """One hyperparameter of a method.

    Attributes:
        name: As in the constructor.
        default: The published value; where that depends on other knobs, beside their defaults.
        type: `bool`, `int`, `float` or `str`.
        choices: The only allowed values, if the constructor names them.
        about: Its line of the docstring.
    """

    name: str
    default: KnobValue
    type: type[bool] | type[int] | type[float] | type[str]
    choices: tuple[str, ...] | None
    about: str

    def check(self, method: str, value: object) -> KnobValue:
        """Returns the value as the knob's type, or raises a ConfigError."""
        if self.choices is not None and value not in self.choices:
            raise ConfigError(
                f"Knob '{self.name}' of {method} must be one of {', '.join(self.choices)}, "
                f"but got {value!r}."
            )
        if self.type is float and type(value) is int:
            return float(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"Knob '{self.name}' of {method} must be finite, but got {value}.")
        if not isinstance(value, bool | int | float | str) or type(value) is not self.type:
            raise ConfigError(
                f"Knob '{self.name}' of {method} must be of type {self.type.__name__}, "
                f"but got {value!r}."
            )
        return value


def require_above(bound: float, method: str, **knobs: float) -> None:
    """Raises a ConfigError that names the first knob whose value is not above the bound."""
    for name, value in knobs.items():
        require(value > bound, f"`{name}` of {method} must be above {bound:g}, but got {value:g}.")


def require_at_least(bound: float, method: str, **knobs: float) -> None:
    """Raises a ConfigError that names the first knob whose value is below the bound."""
    for name, value in knobs.items():
        require(
            value >= bound, f"`{name}` of {method} must be at least {bound:g}, but got {value:g}."
        )


def knobs_of(method: type[Method]) -> dict[str, Knob]:
    """Returns the knobs of a method by name, in the order of its constructor."""
    hints = get_type_hints(method.__init__)
    about = _documented(method.__doc__ or "")
    published = method.published({})
    knobs = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            hint, default = hints[name], parameter.default
            if default is None:
                (hint,) = (each for each in get_args(hint) if each is not type(None))
                default = published[name]
            choices = get_args(hint) if get_origin(hint) is Literal else None
            knobs[name] = Knob(
                name, default, str if choices else hint, choices, about.get(name, "")
            )
    return knobs


def _documented(docstring: str) -> dict[str, str]:
    """The `Args:` section of a Google docstring, by argument."""
    section = re.search(r"Args:\n(.*?)(?:\n\s*\n|\Z)", inspect.cleandoc(docstring), re.DOTALL)
    if section is None:
        return {}
    entries = re.split(r"\n(?=    \w+:)", section[1])
    pairs = (entry.strip().split(":", 1) for entry in entries)
    return {name: " ".join(text.split()) for name, text in pairs}

"""What a search may draw for one knob: an interval of numbers or a list of choices."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from hsearch.spec import KnobValue
from hsearch.words import typed

if TYPE_CHECKING:  # importing optuna takes half a second, and listing knobs does not need it
    from optuna.distributions import BaseDistribution
    from optuna.trial import BaseTrial

Condition = Mapping[str, tuple[KnobValue, ...]]


@dataclass(frozen=True)
class Interval:
    """Numbers from `low` to `high`, both included.

    Attributes:
        low: Least value; for an integer knob an `int`, otherwise a `float`, as `high` and `step`.
        high: Largest value, >= low.
        log: Whether to draw uniformly in the logarithm; low > 0 then.
        step: Distance between two values; none for all floats.
        high_per_class: Lowers `high` to this share of the training classes, where those are few.
    """

    low: int | float
    high: int | float
    log: bool = False
    step: int | float | None = None
    high_per_class: float | None = None

    def contains(self, value: KnobValue) -> bool:
        """Whether the search can draw the value."""
        if isinstance(value, str) or not self.low <= value <= self.high:
            return False
        return self.step is None or is_multiple(value - self.low, self.step)

    def for_classes(self, num_classes: int) -> "Interval":
        """Returns the interval for data with so many training classes."""
        if self.high_per_class is None:
            return self
        most = min(self.high, math.floor(self.high_per_class * num_classes))
        step = self.step or 1
        high = self.low + max(0, math.floor((most - self.low) / step)) * step
        return Interval(self.low, high, self.log, self.step, self.high_per_class)

    def distribution(self) -> "BaseDistribution":
        """Returns Optuna's form of the interval."""
        from optuna.distributions import FloatDistribution, IntDistribution

        if isinstance(self.low, int):
            return IntDistribution(self.low, int(self.high), self.log, int(self.step or 1))
        return FloatDistribution(self.low, self.high, self.log, self.step)

    def suggest(self, trial: "BaseTrial", name: str) -> int | float:
        """Lets the trial choose a value."""
        if isinstance(self.low, int):
            return trial.suggest_int(
                name, self.low, int(self.high), step=int(self.step or 1), log=self.log
            )
        return trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)

    def __str__(self) -> str:
        text = f"{self.low:g} to {self.high:g}"
        if self.log:
            text += ", log"
        if self.step is not None:
            text += f" in steps of {self.step:g}"
        if self.high_per_class is not None:
            text += f", at most {self.high_per_class:g} x classes"
        return text


@dataclass(frozen=True)
class Choices:
    """Two or more values of the knob's type without order."""

    values: tuple[KnobValue, ...]

    def contains(self, value: KnobValue) -> bool:
        """Whether the search can draw the value."""
        return value in self.values

    def for_classes(self, num_classes: int) -> "Choices":
        """Returns the same choices: they do not depend on the data."""
        return self

    def distribution(self) -> "BaseDistribution":
        """Returns Optuna's form of the choices."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.values)

    def suggest(self, trial: "BaseTrial", name: str) -> KnobValue:
        """Lets the trial choose a value."""
        value = trial.suggest_categorical(name, self.values)
        assert value is not None
        return value

    def __str__(self) -> str:
        return ", ".join(map(typed, self.values))


@dataclass(frozen=True)
class KnobRange:
    """A searched knob.

    Attributes:
        name: Dotted, such as `method.margin` or `optimizer.lr.proxies`.
        domain: What the search may draw.
        when: Other knobs' values under which this one matters; empty for always.
        min_levels: Fewest levels of labels for which it matters.
    """

    name: str
    domain: Interval | Choices
    when: Condition = field(default_factory=lambda: MappingProxyType({}))
    min_levels: int = 1

    def is_active(self, values: Mapping[str, KnobValue]) -> bool:
        """Whether the knob matters, given the values of the knobs it depends on."""
        return all(values.get(other) in allowed for other, allowed in self.when.items())


@dataclass(frozen=True)
class StartPoint:
    """Knob values that are known to work somewhere; knobs not named keep their published value."""

    source: str
    values: Mapping[str, KnobValue]


def condition_words(when: Condition) -> str:
    """Returns `method.base = proxy_anchor or proxy_nca, method.hrank = true`."""
    return ", ".join(f"{n} = {' or '.join(map(typed, values))}" for n, values in when.items())


def is_multiple(distance: float, step: float) -> bool:
    """Whether the distance is a whole number of steps, up to rounding."""
    return math.isclose(distance / step, round(distance / step), abs_tol=1e-9)

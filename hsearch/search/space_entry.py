"""What a YAML file says about one knob of a search space, and the checks of single values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hsearch.errors import ConfigError, did_you_mean
from hsearch.search.domain import Choices, Interval, is_multiple
from hsearch.search.settings import SearchableSetting
from hsearch.spec import KnobValue
from hsearch.yaml_file import Value, YamlFile

_INTERVAL = ("low", "high", "log", "step", "high_per_class", "when", "min_levels")
_CHOICES = ("choices", "when", "min_levels")


def check_keys(file: YamlFile, keys: Mapping[str, Value], valid: tuple[str, ...], *at: str) -> None:
    """Raises an error for the first key that is not valid there."""
    for key in keys:
        if key not in valid:
            raise file.error(f"unknown key '{key}'; {did_you_mean(key, valid)}", *at, key)


def checked_values(
    file: YamlFile, setting: SearchableSetting, given: Value, *at: str
) -> tuple[KnobValue, ...]:
    """Returns one value or a list of values, each checked against the setting."""
    checked = []
    for value in given if isinstance(given, list) else [given]:
        if value is None or isinstance(value, list | dict):
            raise file.error(f"a single value is needed here, but got {value!r}.", *at)
        try:
            checked.append(setting.check(value))
        except ConfigError as error:
            raise file.error(str(error), *at) from None
    return tuple(checked)


@dataclass(frozen=True)
class Entry:
    """What the file says about one knob, in one of its sections."""

    file: YamlFile
    name: str
    setting: SearchableSetting
    keys: dict[str, Value]
    section: str = "knobs"

    def domain(self) -> Interval | Choices:
        """Returns what the search may draw."""
        return self.choices() if "choices" in self.keys else self.interval()

    def interval(self) -> Interval:
        """Returns the range of numbers."""
        check_keys(self.file, self.keys, _INTERVAL, *self.at())
        if self.setting.type not in (int, float):
            raise self.error(f"'{self.name}' is no number, so it needs `choices`.")
        low, high = self._end("low"), self._end("high")
        if low >= high:
            raise self.error(
                f"the range of '{self.name}' is empty: `low` must be below `high`, but got "
                f"{low} and {high}."
            )
        return Interval(low, high, self._log(low), self._step(low, high), self._high_per_class())

    def choices(self) -> Choices:
        """Returns the values to choose from."""
        check_keys(self.file, self.keys, _CHOICES, *self.at())
        values = checked_values(self.file, self.setting, self.keys["choices"], *self.at("choices"))
        if len(values) < 2 or len(set(values)) != len(values):
            raise self.error(
                f"`choices` of '{self.name}' must be two or more different values, but got "
                f"{list(values)}.",
                "choices",
            )
        return Choices(values)

    def min_levels(self) -> int:
        """Returns the fewest levels of labels for which the knob matters."""
        levels = self._number("min_levels") if "min_levels" in self.keys else 1
        if not isinstance(levels, int) or levels < 1:
            raise self.error(f"`min_levels` of '{self.name}' must be 1, 2, 3 or so.", "min_levels")
        return levels

    def at(self, *keys: str) -> tuple[str, ...]:
        """Returns the key path of a part of the entry."""
        return (self.section, self.name, *keys)

    def error(self, message: str, *keys: str) -> ConfigError:
        """Returns an error that names the line of a part of the entry."""
        return self.file.error(message, *self.at(*keys))

    def _end(self, key: str) -> int | float:
        if key not in self.keys:
            raise self.error(f"'{self.name}' needs `low` and `high`, or `choices`.")
        self._number(key)
        (value,) = checked_values(self.file, self.setting, self.keys[key], *self.at(key))
        assert isinstance(value, int | float)
        return value

    def _number(self, key: str) -> int | float:
        value = self.keys[key]
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise self.error(f"`{key}` of '{self.name}' must be a number, not {value!r}.", key)
        return value

    def _log(self, low: float) -> bool:
        log = self.keys.get("log", False)
        if not isinstance(log, bool):
            raise self.error(f"`log` of '{self.name}' must be true or false, not {log!r}.", "log")
        if log and low <= 0:
            raise self.error(
                f"a log range needs `low` above 0, but '{self.name}' has {low}.", "low"
            )
        if log and "step" in self.keys:
            raise self.error(f"'{self.name}' has both `log` and `step`; choose one.", "step")
        return log

    def _step(self, low: float, high: float) -> int | float | None:
        if "step" not in self.keys:
            return None
        step = self._number("step")
        if self.setting.type is float:
            step = float(step)
        if type(step) is not self.setting.type or step <= 0 or not is_multiple(high - low, step):
            raise self.error(
                f"`high` minus `low` of '{self.name}' must be a whole number of steps, but "
                f"{low} to {high} was given with `step` {step}.",
                "step",
            )
        return step

    def _high_per_class(self) -> float | None:
        if "high_per_class" not in self.keys:
            return None
        share = self._number("high_per_class")
        if self.setting.type is not int or share <= 0:
            raise self.error(
                f"`high_per_class` must be above 0 and limit a count, but '{self.name}' is of "
                f"type {self.setting.type.__name__} and got {share}.",
                "high_per_class",
            )
        return float(share)

"""The YAML form of a search space, checked against the method before anything starts.

    knobs:
      method.base: {choices: [proxy_anchor, proxy_nca]}
      method.margin: {low: 0.0, high: 0.4, when: {method.base: proxy_anchor}}
      method.scale: {low: 4.0, high: 64.0, log: true}
      method.num_coarse: {low: 2, high: 1000, log: true, high_per_class: 0.5}
      method.levels: {choices: [fine, all], min_levels: 2}
    start:
      - source: where these values come from
        values: {method.scale: 32.0}

A condition names a knob that stands above it, or a knob of the method that is not searched and
so keeps its published value. `min_levels` is the fewest levels of labels for which a knob matters.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hsearch.errors import ConfigError, did_you_mean
from hsearch.search.domain import Choices, Interval, KnobRange, StartPoint, is_multiple
from hsearch.search.settings import SearchableSetting, find_setting
from hsearch.spec import KnobValue
from hsearch.yaml_file import Value, YamlFile

Settings = Mapping[str, SearchableSetting]

_INTERVAL = ("low", "high", "log", "step", "high_per_class", "when", "min_levels")
_CHOICES = ("choices", "when", "min_levels")


def read_knobs(
    file: YamlFile, settings: Settings, above: Mapping[str, KnobRange], *, common: bool = False
) -> dict[str, KnobRange]:
    """Returns the knobs of a file by name.

    Args:
        file: The parsed file.
        settings: What can be searched for the method.
        above: Knobs that stand before those of this file.
        common: Whether the file serves all methods, so that knobs which this method lacks or has
            above already are passed over.
    """
    check_keys(file, file.content, ("knobs",) if common else ("knobs", "start"))
    entries = _mapping(file, "knobs")
    if common:
        entries = {n: e for n, e in entries.items() if n in settings and n not in above}
    found: dict[str, KnobRange] = {}
    for name in entries:
        setting = _setting(file, settings, name, "knobs", name)
        entry = _Entry(file, name, setting, _mapping(file, "knobs", name))
        domain = entry.choices() if "choices" in entry.keys else entry.interval()
        earlier, later = {*above, *found}, set(entries) - set(found)
        conditions = _conditions(entry, settings, earlier, later)
        found[name] = KnobRange(name, domain, conditions, entry.min_levels())
    return found


def read_start(
    file: YamlFile, settings: Settings, knobs: Mapping[str, KnobRange]
) -> tuple[StartPoint, ...]:
    """Returns the start points of a file, which may name any of the given knobs."""
    points = file.content.get("start", [])
    if not isinstance(points, list):
        raise file.error("`start` must be a list of points.", "start")
    return tuple(_point(file, settings, knobs, str(index)) for index in range(len(points)))


def check_keys(file: YamlFile, keys: Mapping[str, Value], valid: tuple[str, ...], *at: str) -> None:
    """Raises an error for the first key that is not valid there."""
    for key in keys:
        if key not in valid:
            raise file.error(f"unknown key '{key}'; {did_you_mean(key, valid)}", *at, key)


@dataclass(frozen=True)
class _Entry:
    """What the file says about one knob."""

    file: YamlFile
    name: str
    setting: SearchableSetting
    keys: dict[str, Value]

    def interval(self) -> Interval:
        check_keys(self.file, self.keys, _INTERVAL, "knobs", self.name)
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
        check_keys(self.file, self.keys, _CHOICES, "knobs", self.name)
        values = _values(self.file, self.setting, self.keys["choices"], *self.at("choices"))
        if len(values) < 2 or len(set(values)) != len(values):
            raise self.error(
                f"`choices` of '{self.name}' must be two or more different values, but got "
                f"{list(values)}.",
                "choices",
            )
        return Choices(values)

    def min_levels(self) -> int:
        levels = self._number("min_levels") if "min_levels" in self.keys else 1
        if not isinstance(levels, int) or levels < 1:
            raise self.error(f"`min_levels` of '{self.name}' must be 1, 2, 3 or so.", "min_levels")
        return levels

    def at(self, *keys: str) -> tuple[str, ...]:
        return ("knobs", self.name, *keys)

    def error(self, message: str, *keys: str) -> ConfigError:
        return self.file.error(message, *self.at(*keys))

    def _end(self, key: str) -> int | float:
        if key not in self.keys:
            raise self.error(f"'{self.name}' needs `low` and `high`, or `choices`.")
        self._number(key)
        (value,) = _values(self.file, self.setting, self.keys[key], *self.at(key))
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


def _conditions(
    entry: _Entry, settings: Settings, earlier: set[str], later: set[str]
) -> dict[str, tuple[KnobValue, ...]]:
    if "when" not in entry.keys:
        return {}
    conditions = {}
    for other, values in _mapping(entry.file, *entry.at("when")).items():
        at = entry.at("when", other)
        setting = _setting(entry.file, settings, other, *at)
        if other in later or (other not in earlier and setting.published is None):
            raise entry.file.error(
                f"the condition of '{entry.name}' must name a knob that stands above it, but "
                f"'{other}' does not.",
                *at,
            )
        conditions[other] = _values(entry.file, setting, values, *at)
    return conditions


def _point(
    file: YamlFile, settings: Settings, knobs: Mapping[str, KnobRange], index: str
) -> StartPoint:
    at = ("start", index)
    keys = _mapping(file, *at)
    check_keys(file, keys, ("source", "values"), *at)
    source = keys.get("source")
    if not isinstance(source, str) or not source:
        raise file.error("a start point needs a `source`, such as a paper.", *at)
    values: dict[str, KnobValue] = {}
    for name, value in _mapping(file, *at, "values").items():
        here = (*at, "values", name)
        if name not in knobs:
            raise file.error(f"'{name}' is not searched; {did_you_mean(name, knobs)}", *here)
        (values[name],) = _values(file, settings[name], [value], *here)
        if not knobs[name].domain.contains(values[name]):
            raise file.error(
                f"the start point's '{name}' is {value!r}, but its range is {knobs[name].domain}.",
                *here,
            )
    known = {n: s.published for n, s in settings.items() if s.published is not None}
    for name in values:
        if not knobs[name].is_active({**known, **values}):
            raise file.error(
                f"the start point sets '{name}', whose condition it does not meet.",
                *(*at, "values", name),
            )
    return StartPoint(source, values)


def _setting(file: YamlFile, settings: Settings, name: str, *at: str) -> SearchableSetting:
    try:
        return find_setting(settings, name)
    except ConfigError as error:
        raise file.error(str(error), *at) from None


def _values(
    file: YamlFile, setting: SearchableSetting, given: Value, *at: str
) -> tuple[KnobValue, ...]:
    """One value or a list of values, each checked against the setting."""
    checked = []
    for value in given if isinstance(given, list) else [given]:
        if value is None or isinstance(value, list | dict):
            raise file.error(f"a single value is needed here, but got {value!r}.", *at)
        try:
            checked.append(setting.check(value))
        except ConfigError as error:
            raise file.error(str(error), *at) from None
    return tuple(checked)


def _mapping(file: YamlFile, *at: str) -> dict[str, Value]:
    """The mapping at a key path, which must be there and not empty."""
    value: Value = file.content
    for key in at:
        if isinstance(value, list):
            value = value[int(key)]
        else:
            value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not value:
        raise file.error(f"`{'.'.join(at)}` must be a mapping that is not empty.", *at)
    return value

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

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hsearch.errors import ConfigError, did_you_mean
from hsearch.search.domain import KnobRange, StartPoint
from hsearch.search.settings import SearchableSetting, find_setting
from hsearch.search.space_entry import Entry, check_keys, checked_values
from hsearch.spec import KnobValue
from hsearch.yaml_file import Value, YamlFile

Settings = Mapping[str, SearchableSetting]


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
        entry = Entry(file, name, setting, _mapping(file, "knobs", name))
        earlier, later = {*above, *found}, set(entries) - set(found)
        conditions = _conditions(entry, settings, earlier, later)
        found[name] = KnobRange(name, entry.domain(), conditions, entry.min_levels())
    return found


def read_ranges(
    file: YamlFile, ranges: Mapping[str, Value], settings: Settings, knobs: Iterable[KnobRange]
) -> list[KnobRange]:
    """Returns knobs with the ranges of a recipe in the place of their own.

    When a knob matters stays as it is. Ranges of knobs that are not searched are passed over, for
    a recipe serves all methods.

    Args:
        file: Of the recipe.
        ranges: What it says, by knob.
        settings: What can be searched for the method.
        knobs: That are searched.
    """
    found = []
    for knob in knobs:
        given = ranges.get(knob.name)
        if given is not None:
            if not isinstance(given, dict):
                raise file.error(
                    f"the range of '{knob.name}' must look like {{low: 0.1, high: 1.0}}.",
                    *("ranges", knob.name),
                )
            check_keys(file, given, ("low", "high", "log", "step", "choices"), "ranges", knob.name)
            entry = Entry(file, knob.name, settings[knob.name], given, "ranges")
            knob = replace(knob, domain=entry.domain())
        found.append(knob)
    return found


def read_start(
    file: YamlFile, settings: Settings, knobs: Mapping[str, KnobRange]
) -> tuple[StartPoint, ...]:
    """Returns the start points of a file, which may name any of the given knobs."""
    points = file.content.get("start", [])
    if not isinstance(points, list):
        raise file.error("`start` must be a list of points.", "start")
    return tuple(_point(file, settings, knobs, str(index)) for index in range(len(points)))


def _conditions(
    entry: Entry, settings: Settings, earlier: set[str], later: set[str]
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
        conditions[other] = checked_values(entry.file, setting, values, *at)
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
        (values[name],) = checked_values(file, settings[name], [value], *here)
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

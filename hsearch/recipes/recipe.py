"""Recipes as their YAML files say, with those that they extend; every key is checked."""

import copy
import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from hsearch.errors import ConfigError, did_you_mean
from hsearch.folds import Splits
from hsearch.spec import ModelSpec, StageSpec, TrainingSpec
from hsearch.spec_stage import merged
from hsearch.yaml_file import Value, YamlFile, read_yaml

FOLDER = Path(__file__).parent
_SUFFIXES = (".yaml", ".yml")
_SAMPLERS = ("tpe", "gp", "random")
_SPECS: dict[str, type[BaseModel]] = {
    name: info.annotation
    for name, info in TrainingSpec.model_fields.items()
    if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel)
}
_BESIDES = ("about", "extends", "also_for", "splits", "trials", "sampler")
_BY_NAME = ("ranges", "methods", "regimes")
_KEYS = (*_BESIDES, *_BY_NAME, *_SPECS, "stages")

OF_BACKBONE = {
    "image": ("mean", "std", "range_max", "channels", "interpolation", "resize", "crop"),
    "model": ("backbone_args",),
}
"""Settings that belong to a recipe's own backbone: another one brings its own."""

REGIMES: tuple[str, ...] = get_args(ModelSpec.model_fields["regime"].annotation)

Settings = dict[str, Value]


@dataclass(frozen=True)
class Recipe:
    """A recipe as its file says, together with those that it extends.

    Attributes:
        name: Of the recipe, or of the user's own file.
        about: What it is for, in a sentence.
        also_for: Methods besides that of its folder.
        settings: Sections of a `TrainingSpec`, nested; what is not there is left open.
        splits: How classes are split, where the command line does not say.
        trials: How many a search has, where the command line does not say.
        sampler: Who proposes knobs, where the command line does not say.
        ranges: By knob, what is searched instead of a method's own range.
        methods: By method, settings by dotted name; `method.KNOB` is a knob.
        regimes: By regime, settings by dotted name.
        file: The file itself, for messages.
        own: Whether it is a file of the user's own.
    """

    name: str
    about: str
    settings: Settings
    file: YamlFile = field(repr=False)
    also_for: tuple[str, ...] = ()
    splits: Splits | None = None
    trials: int | None = None
    sampler: str | None = None
    ranges: Mapping[str, Value] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    regimes: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    own: bool = False

    @property
    def backbone(self) -> str | None:
        """The name of its backbone; null where it has none."""
        backbone = section(self.settings, "model").get("backbone")
        return None if backbone is None else str(backbone)

    def settings_for(self, method: str, regime: str | None = None) -> Settings:
        """Returns what it sets for a method in a regime, by dotted name, knobs included.

        Args:
            method: Its name.
            regime: By default the recipe's own.
        """
        own = section(self.settings, "model").get(
            "regime", ModelSpec.model_fields["regime"].default
        )
        return {**self.regimes.get(regime or str(own), {}), **self.methods.get(method, {})}

    def to_yaml_values(self) -> Settings:
        """Returns all that its file could say so as to be the same without `extends`."""
        besides: Settings = {
            "splits": self.splits,
            "trials": self.trials,
            "sampler": self.sampler,
            "ranges": dict(self.ranges),
            "methods": {name: dict(values) for name, values in self.methods.items()},
            "regimes": {name: dict(values) for name, values in self.regimes.items()},
            "also_for": list(self.also_for),
        }
        given = {key: value for key, value in besides.items() if value not in (None, {}, [])}
        return copy.deepcopy({"about": self.about, **given, **self.settings})


def available_recipes() -> list[str]:
    """Returns the names of all recipes, sorted; `hier/cub` is the file `hier/cub.yaml`."""
    files = FOLDER.rglob("*.yaml")
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in files)


def read_recipe(name: str) -> Recipe:
    """Returns the recipe of that name, or that of a file of the user's own."""
    return _read(name, Path(), ()) if is_own_file(name) else _shipped(name)


@cache
def _shipped(name: str) -> Recipe:
    return _read(name, Path(), ())


def section(content: Mapping[str, Value], name: str) -> Settings:
    """Returns a section of nested settings; an empty one where there is none."""
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def is_unset(key: str, value: Value) -> bool:
    """Whether the value of a dotted key means that nobody has set it: null, but for optional ones.

    `stages: null` says that there are none.
    """
    return value is None and not _is_optional(tuple(key.split(".")))


def is_own_file(name: str) -> bool:
    """Whether a recipe is given by the path of a file."""
    return name.endswith(_SUFFIXES)


def _read(name: str, folder: Path, seen: tuple[str, ...]) -> Recipe:
    own = is_own_file(name)
    path = folder / Path(name).expanduser() if own else FOLDER / f"{name}.yaml"
    if not own and name not in available_recipes():
        raise ConfigError(_unknown(name))
    if own and not path.is_file():
        raise ConfigError(
            f"There is no recipe file {path}; `hsearch recipes NAME` prints one to copy."
        )
    file, key = read_yaml(path), str(path.resolve())
    if key in seen:
        raise file.error("the recipe extends itself, directly or by others.", "extends")
    recipe = _checked(path.name if own else name, file, own)
    if "extends" in file.content:
        base = _base(file, path.parent if own else Path(), own, (*seen, key))
        recipe = _extended(recipe, base)
    else:
        recipe = replace(recipe, settings=_layered({}, recipe.settings))
    if own and not seen:
        _check_values(recipe)
    return recipe


def _base(file: YamlFile, folder: Path, own: bool, seen: tuple[str, ...]) -> Recipe:
    name = file.content["extends"]
    if not isinstance(name, str) or (is_own_file(name) and not own):
        raise file.error("`extends` must be the name of a recipe.", "extends")
    try:
        return _read(name, folder, seen)
    except ConfigError as error:
        where = "" if is_own_file(name) and (folder / name).is_file() else "extends"
        raise (file.error(str(error), where) if where else error) from None


def _checked(name: str, file: YamlFile, own: bool) -> Recipe:
    """The file's own content, whose keys must exist."""
    content = file.content
    for at, valid in _known_keys(content):
        found: Value = content
        for key in at:
            found = found.get(key) if isinstance(found, dict) else None
        if found is None:
            continue
        if not isinstance(found, dict):
            raise file.error(f"`{'.'.join(at)}` must be a mapping of names to values.", *at)
        for key in found:
            if valid and key not in valid:
                raise file.error(f"unknown key '{key}'; {did_you_mean(key, valid)}", *at, key)
    return Recipe(
        name=name,
        about=_text(file, "about") or f"The settings of {name}.",
        settings=_with_weights_beside(
            {key: content[key] for key in (*_SPECS, "stages") if key in content}, file
        ),
        file=file,
        also_for=_names(content.get("also_for")),
        splits=_one_of(file, "splits", get_args(Splits)),  # type: ignore[arg-type]
        trials=_count(file, "trials"),
        sampler=_one_of(file, "sampler", _SAMPLERS),
        own=own,
        **{key: section(content, key) for key in _BY_NAME},  # type: ignore[arg-type]
    )


def _with_weights_beside(settings: Settings, file: YamlFile) -> Settings:
    """The settings with the path of a file of weights as seen from the recipe's file."""
    weights = section(settings, "model").get("weights")
    if not isinstance(weights, str) or weights in ("pretrained", "random"):
        return settings
    path = file.path.absolute().parent / Path(weights).expanduser()
    return {**settings, "model": {**section(settings, "model"), "weights": str(path)}}


def _known_keys(content: Mapping[str, Value]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Key paths of all mappings, with the keys that may stand there; none where any may."""
    yield (), _KEYS
    for name, spec in _SPECS.items():
        yield (name,), tuple(spec.model_fields)
    yield ("stages",), ()
    for stage in section(content, "stages"):
        yield ("stages", stage), tuple(StageSpec.model_fields)
        for name, spec in _SPECS.items():
            if name in StageSpec.model_fields:
                yield ("stages", stage, name), tuple(spec.model_fields)
    yield ("ranges",), ()
    yield ("methods",), ()
    yield ("regimes",), REGIMES
    for key in ("methods", "regimes"):
        for name in section(content, key):
            yield (key, name), ()


def _extended(recipe: Recipe, base: Recipe) -> Recipe:
    """The recipe on top of the one that it extends; null unsets."""
    file, settings = recipe.file, copy.deepcopy(base.settings)
    own_model = section(recipe.settings, "model")
    if own_model.get("backbone") is not None:
        weights = own_model.get("weights", section(settings, "model").get("weights"))
        drop_preprocessing(settings, own_model["backbone"], weights)
    besides = {
        key: getattr(recipe if key in file.content else base, key)
        for key in ("also_for", "splits", "trials", "sampler")
    }
    ranges = {**base.ranges, **recipe.ranges}
    return replace(
        recipe,
        settings=_layered(settings, recipe.settings),
        ranges={knob: given for knob, given in ranges.items() if given is not None},
        methods=_by_name(base.methods, recipe.methods),
        regimes=_by_name(base.regimes, recipe.regimes),
        **besides,
    )


def _by_name(
    base: Mapping[str, Mapping[str, Value]], own: Mapping[str, Mapping[str, Value] | None]
) -> dict[str, Mapping[str, Value]]:
    """Settings by method or regime; null takes all of one away."""
    found = {**base}
    for name, settings in own.items():
        if settings is None:
            found.pop(name, None)
        else:
            found[name] = {**found.get(name, {}), **settings}
    return found


def _layered(values: Mapping[str, Value], changes: Mapping[str, Value], *at: str) -> Settings:
    """Nested values with the changes in their place; what these set to null is gone."""
    found: Settings = dict(values)
    for key, value in changes.items():
        old = found.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            found[key] = _layered(old, value, *at, key)
        elif isinstance(value, dict):
            found |= merged({key: old}, {key: _layered({}, value, *at, key)})
        elif is_unset(".".join((*at, key)), value):
            found.pop(key, None)
        else:
            found[key] = value
    return found


def drop_preprocessing(content: Settings, backbone: Value, weights: Value) -> None:
    """Takes away what belongs to the recipe's own backbone, unless the new one is from scratch."""
    model = section(content, "model")
    if backbone == model.get("backbone") or weights == "random":
        return
    for name, keys in OF_BACKBONE.items():
        for key in keys:
            section(content, name).pop(key, None)
    if model.get("pooling") == "token":  # which only transformers have
        del model["pooling"]


def _check_values(recipe: Recipe) -> None:
    """Raises with file and line for values of an own file that cannot be."""
    try:
        TrainingSpec.from_dict({"recipe": recipe.name, **_needed(recipe.settings)})
    except ConfigError as error:
        named = re.search(r"'([\w.-]+)'", str(error))
        raise recipe.file.error(str(error), *(named[1].split(".") if named else ())) from None


def _needed(settings: Settings) -> Settings:
    """The settings with an empty section for each that is missing, and a size that fits."""
    image = section(settings, "image")
    if "crop" in image:  # the other one follows from the backbone
        image = {"resize": image["crop"], **image}
    return {**{name: {} for name in _SPECS}, **settings, "image": image}


def _is_optional(keys: tuple[str, ...]) -> bool:
    if keys == ("stages",) or keys[0] == "method":
        return True
    name, *inner = keys[2:] if keys[0] == "stages" else keys
    fields = _SPECS[name].model_fields if name in _SPECS else {}
    return (
        len(inner) == 1
        and inner[0] in fields
        and type(None) in get_args(fields[inner[0]].annotation)
    )


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.casefold(), available_recipes(), n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return (
        f"Unknown recipe '{name}'.{hint} `hsearch recipes` lists all of them; one of your own is a "
        "file whose name ends in .yaml."
    )


def _text(file: YamlFile, key: str) -> str | None:
    value = file.content.get(key)
    if value is not None and not isinstance(value, str):
        raise file.error(f"`{key}` must be text, not {value!r}.", key)
    return value


def _one_of(file: YamlFile, key: str, valid: tuple[str, ...]) -> str | None:
    value = _text(file, key)
    if value is not None and value not in valid:
        raise file.error(f"`{key}` must be one of {', '.join(valid)}, but is '{value}'.", key)
    return value


def _count(file: YamlFile, key: str) -> int | None:
    value = file.content.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise file.error(f"`{key}` must be a whole number from 1 on, not {value!r}.", key)
    return value


def _names(value: Value) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()

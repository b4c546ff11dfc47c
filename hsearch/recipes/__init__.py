"""Recipes: named training settings, one YAML file each; the file name is the recipe's name.

Beside the settings a file may hold, for methods by name, the published values of knobs that differ
from a method's own (`knobs: {csl: {margin_step: 0.2}}`), and which methods besides that of its
folder it was published for (`also_for: [csl]`).
"""

import copy
import difflib
from collections.abc import Mapping
from pathlib import Path

from hsearch.errors import ConfigError, did_you_mean
from hsearch.spec import TrainingSpec
from hsearch.yaml_file import Value, YamlFile, read_yaml

_FOLDER = Path(__file__).parent
_BESIDES = ("about", "also_for", "knobs")  # what is no setting


DEFAULTS = {"retrieval": "small", "multilabel": "small-labels"}
"""By task, the recipe where nobody names one."""


def available_recipes() -> list[str]:
    """Returns the names of all recipes, sorted; `hier/cub` is the file `hier/cub.yaml`."""
    files = _FOLDER.rglob("*.yaml")
    return sorted(path.relative_to(_FOLDER).with_suffix("").as_posix() for path in files)


def recipes_of(method: str) -> dict[str, str]:
    """Returns what each recipe that was published for the method is for, by name.

    Those in the method's folder come first.
    """
    own = [name for name in available_recipes() if name.startswith(f"{method}/")]
    files = {name: _read(name).content for name in available_recipes()}
    others = [name for name, content in files.items() if method in _names(content.get("also_for"))]
    return {name: str(files[name]["about"]) for name in (*own, *others)}


def recipe_knobs(name: str, method: str) -> dict[str, Value]:
    """Returns the values that the recipe has for knobs of the method; they are not checked here."""
    by_method = _read(name).content.get("knobs")
    knobs = by_method.get(method) if isinstance(by_method, dict) else None
    return dict(knobs) if isinstance(knobs, dict) else {}


def load_recipe(
    name: str,
    overrides: Mapping[str, Value] | None = None,
    wishes: Mapping[str, Value] | None = None,
) -> TrainingSpec:
    """Returns the recipe with single values overridden.

    Args:
        name: One of `available_recipes()`.
        overrides: Values by dotted key, such as `{"optimizer.lr.proxies": 0.01}`; a whole is set
            before its parts.
        wishes: Values, by dotted key or as a whole section, of what the recipe leaves open.
    """
    content = {k: v for k, v in _read(name).content.items() if k not in _BESIDES}
    content["recipe"] = name
    for key, value in copy.deepcopy(dict(wishes or {})).items():
        *section, setting = key.split(".")
        part = content[section[0]] if section else content
        if isinstance(part, dict):
            part.setdefault(setting, value)
    _check_stage_names(content.get("stages"), overrides or {})
    for key, value in sorted((overrides or {}).items(), key=lambda item: item[0].count(".")):
        if key == "recipe":
            raise ConfigError(
                "The recipe is not one of its own settings; choose it with `--recipe`."
            )
        _set(content, key.split("."), value)
    return TrainingSpec.from_dict(content)


def _read(name: str) -> YamlFile:
    if name not in available_recipes():
        near = difflib.get_close_matches(name.casefold(), available_recipes(), n=3, cutoff=0.6)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        *general, last = (recipe for recipe in available_recipes() if "/" not in recipe)
        raise ConfigError(
            f"Unknown recipe '{name}'.{hint} {', '.join(general)} and {last} are for no data set "
            "in particular, and `hsearch methods NAME` lists those of a method."
        )
    return read_yaml(_FOLDER / f"{name}.yaml")


def _names(value: Value) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []


def _check_stage_names(stages: Value, overrides: Mapping[str, Value]) -> None:
    """Raises for settings of a stage that is not there, and that is not made anew."""
    off = "stages" in overrides and overrides["stages"] is None
    known = stages if isinstance(stages, dict) and not off else {}
    named = {key.split(".")[1] for key in overrides if key.startswith("stages.")}
    for name in sorted(named - known.keys()):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if near or not {f"stages.{name}", f"stages.{name}.share"} & overrides.keys():
            hint = did_you_mean(name, known) if known else "the training has none."
            raise ConfigError(
                f"There is no stage '{name}' whose settings could change; {hint} A new one needs a "
                f"name of its own and stages.{name}.share."
            )


def _set(content: dict[str, Value], keys: list[str], value: Value) -> None:
    """Puts a value at a dotted key; an impossible key is left for the spec's own validation."""
    *parents, last = keys
    for key in parents:
        inner = content.setdefault(key, {})
        if key == "stages" and inner is None:  # those of the recipe or the method are switched off
            inner = content[key] = {}
        if key == "weight_decay" and isinstance(inner, int | float):  # for all groups, till now
            inner = content[key] = {"backbone": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"The setting '{'.'.join(keys)}' does not exist: '{key}' is a value.")
        content = inner
    content[last] = value

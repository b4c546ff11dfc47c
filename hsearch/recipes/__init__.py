"""Recipes: named training settings, one YAML file each; the file name is the recipe's name.

Beside the settings of a `TrainingSpec` a file may hold

    about: One sentence.
    extends: photos             # another recipe, whose settings it takes over; null unsets one
    also_for: [csl]             # methods, besides that of its folder, that it was published for
    splits: mlrc                # what a search has where the command line says nothing
    trials: 50
    sampler: tpe
    ranges: {optimizer.lr.proxies: {low: 1.0e-6, high: 1.0, log: true}}
    methods: {hpl: {batch.size: 128, method.num_coarse: 500}}    # settings by method
    regimes: {full: {optimizer.lr.backbone: 1.0e-5}}             # settings by regime

A file of the user's own has the same form and is named by its path.
"""

import copy
import difflib
from collections.abc import Mapping

from hsearch.errors import ConfigError, did_you_mean
from hsearch.recipes.recipe import (
    FOLDER,
    Recipe,
    Settings,
    available_recipes,
    drop_preprocessing,
    is_own_file,
    is_unset,
    read_recipe,
    section,
)
from hsearch.spec import TrainingSpec
from hsearch.yaml_file import Value

__all__ = [
    "FOLDER",
    "Recipe",
    "available_recipes",
    "compose",
    "is_own_file",
    "is_unset",
    "load_recipe",
    "read_recipe",
    "recipe_knobs",
    "recipes_of",
    "section",
]


def recipes_of(method: str) -> dict[str, str]:
    """Returns what each recipe that was published for the method is for, by name.

    Those in the method's folder come first.
    """
    own = [name for name in available_recipes() if name.startswith(f"{method}/")]
    recipes = {name: read_recipe(name) for name in available_recipes()}
    others = [name for name, recipe in recipes.items() if method in recipe.also_for]
    return {name: recipes[name].about for name in (*own, *others)}


def recipe_knobs(name: str, method: str) -> dict[str, Value]:
    """Returns the values that the recipe has for knobs of the method; they are not checked here."""
    given = read_recipe(name).methods.get(method, {})
    return {
        key.removeprefix("method."): value
        for key, value in given.items()
        if key.startswith("method.")
    }


def load_recipe(
    name: str,
    overrides: Mapping[str, Value] | None = None,
    wishes: Mapping[str, Value] | None = None,
) -> TrainingSpec:
    """Returns the recipe with single values overridden, for no method in particular.

    Args:
        name: One of `available_recipes()`, or the path of a file.
        overrides: Values by dotted key, such as `{"optimizer.lr.proxies": 0.01}`; a whole is set
            before its parts, and null unsets what is not optional.
        wishes: Values, by dotted key or as a whole section, of what the recipe leaves open.
    """
    return TrainingSpec.from_dict(compose(read_recipe(name), overrides or {}, wishes or {}))


def compose(
    recipe: Recipe,
    overrides: Mapping[str, Value],
    wishes: Mapping[str, Value],
    given: Mapping[str, Value] | None = None,
) -> Settings:
    """Returns nested values of a `TrainingSpec`; what nobody has set is not among them.

    The later goes before the earlier: the recipe, what a method wishes where it leaves that open,
    its settings for the method and the regime, the overrides.

    Args:
        recipe: To start from.
        overrides: Of the command line, by dotted key.
        wishes: Of the method, by dotted key or as a whole section.
        given: The recipe's settings for method and regime, by dotted key.
    """
    content = copy.deepcopy(recipe.settings)
    content["recipe"] = recipe.name
    unset = {key for key, value in overrides.items() if is_unset(key, value)}
    changes = {key: value for key, value in overrides.items() if key not in unset}
    for key in unset:
        _remove(content, key.split("."))
    if "model.backbone" in changes:
        weights = changes.get("model.weights", section(content, "model").get("weights"))
        drop_preprocessing(content, changes["model.backbone"], weights)
    _add_wishes(content, wishes)
    for key in filter(_is_of_stage, unset):  # those that the method wishes, too
        _remove(content, key.split("."))
    still = {key: value for key, value in (given or {}).items() if key not in unset}
    for key, value in _wholes_first(copy.deepcopy(still)):
        _set(content, key.split("."), value)
    _check_stage_names(content.get("stages"), overrides)
    if "recipe" in changes:
        raise ConfigError("The recipe is not one of its own settings; choose it with `--recipe`.")
    for key, value in _wholes_first(changes):
        _set(content, key.split("."), value)
    return content


def _add_wishes(content: Settings, wishes: Mapping[str, Value]) -> None:
    """Sets what a method wishes and the recipe leaves open."""
    for key, value in copy.deepcopy(dict(wishes)).items():
        *parents, setting = key.split(".")
        part = content.setdefault(parents[0], {}) if parents else content
        if isinstance(part, dict):
            part.setdefault(setting, value)


def _is_of_stage(key: str) -> bool:
    return key.startswith("stages.")


def _wholes_first(settings: Mapping[str, Value]) -> list[tuple[str, Value]]:
    return sorted(settings.items(), key=lambda item: item[0].count("."))


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


def _set(content: Settings, keys: list[str], value: Value) -> None:
    """Puts a value at a dotted key; an impossible key is left for the spec's own validation."""
    if is_unset(".".join(keys), value):
        _remove(content, keys)
        return
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


def _remove(content: Settings, keys: list[str]) -> None:
    """Takes a dotted key away, if it is there."""
    *parents, last = keys
    for key in parents:
        content = section(content, key)
    content.pop(last, None)

"""Recipes: named training settings, one YAML file each; the file name is the recipe's name."""

from collections.abc import Mapping
from pathlib import Path

from hsearch.errors import ConfigError, did_you_mean
from hsearch.spec import TrainingSpec
from hsearch.yaml_file import Value, read_yaml

_FOLDER = Path(__file__).parent


def available_recipes() -> list[str]:
    """Returns the names of all recipes, sorted; `hier/cub` is the file `hier/cub.yaml`."""
    files = _FOLDER.rglob("*.yaml")
    return sorted(path.relative_to(_FOLDER).with_suffix("").as_posix() for path in files)


def recipes_of(method: str) -> dict[str, str]:
    """Returns what each recipe in the method's folder is for, by name."""
    names = [name for name in available_recipes() if name.startswith(f"{method}/")]
    return {name: str(read_yaml(_FOLDER / f"{name}.yaml").content["about"]) for name in names}


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
        wishes: Values by dotted key of what the recipe itself leaves open.
    """
    if name not in available_recipes():
        raise ConfigError(f"Unknown recipe '{name}'; {did_you_mean(name, available_recipes())}")
    file = read_yaml(_FOLDER / f"{name}.yaml")
    content = {"recipe": name, **{k: v for k, v in file.content.items() if k != "about"}}
    for key, value in (wishes or {}).items():
        section, setting = key.split(".")
        part = content[section]
        if isinstance(part, dict):
            part.setdefault(setting, value)
    for key, value in sorted((overrides or {}).items(), key=lambda item: item[0].count(".")):
        if key == "recipe":
            raise ConfigError(
                "The recipe is not one of its own settings; choose it with `--recipe`."
            )
        _set(content, key.split("."), value)
    return TrainingSpec.from_dict(content)


def _set(content: dict[str, Value], keys: list[str], value: Value) -> None:
    """Puts a value at a dotted key; an impossible key is left for the spec's own validation."""
    *parents, last = keys
    for key in parents:
        inner = content.setdefault(key, {})
        if key == "weight_decay" and isinstance(inner, int | float):  # for all groups, till now
            inner = content[key] = {"backbone": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"The setting '{'.'.join(keys)}' does not exist: '{key}' is a value.")
        content = inner
    content[last] = value

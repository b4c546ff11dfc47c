"""From what a user names to a complete job: method, data, recipe and single settings."""

from collections.abc import Mapping

from hsearch.data.library import open_data
from hsearch.errors import ConfigError, did_you_mean
from hsearch.folds import Splits
from hsearch.methods import check_knobs, load_method
from hsearch.recipes import load_recipe
from hsearch.spec import FoldJob, MethodSpec
from hsearch.training.optimizer import learning_rates
from hsearch.yaml_file import Scalar


def resolve_job(
    *,
    method: str,
    data: str,
    recipe: str,
    settings: Mapping[str, Scalar],
    splits: Splits = "disjoint",
    fold: int = 0,
    seed: int = 0,
) -> FoldJob:
    """Returns the job with every value filled in and checked, before anything is trained.

    Args:
        method: Name of a method.
        data: Name or path of a store.
        recipe: Name of a recipe.
        settings: Values by dotted key: `method.KNOB` or a setting of the recipe.
        splits: How classes are split.
        fold: From 0.
        seed: Root of all draws.
    """
    kind = load_method(method)
    knobs = {key.removeprefix("method."): v for key, v in settings.items() if _is_knob(key)}
    checked = check_knobs(method, knobs)
    training = load_recipe(recipe, {k: v for k, v in settings.items() if not _is_knob(k)})
    rates = learning_rates(training.optimizer, kind)
    for key in settings:
        group = key.removeprefix("optimizer.lr.")
        if group != key and group not in rates:
            raise ConfigError(
                f"{method} has no group '{group}' to set a learning rate for; "
                f"{did_you_mean(group, rates)}"
            )
    return FoldJob(
        data=data,
        data_digest=open_data(data).digest,
        method=MethodSpec(name=method, knobs=checked),
        training=training,
        splits=splits,
        fold=fold,
        seed=seed,
    )


def parse_setting(text: str) -> tuple[str, Scalar]:
    """Reads `a.b=c`; the value is true, false, null, a number, or else text."""
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise ConfigError(f"A setting must look like a.b=c, but got '{text}'.")
    words: dict[str, Scalar] = {"true": True, "false": False, "null": None}
    if value in words:
        return key, words[value]
    for kind in (int, float):
        try:
            return key, kind(value)
        except ValueError:
            continue
    return key, value


def _is_knob(key: str) -> bool:
    return key.startswith("method.")

"""From what a user names to a complete job: method, data, recipe and single settings."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hsearch.addresses import is_address, read_address
from hsearch.data.library import is_name, open_data
from hsearch.data.splits import default_splits, split_store
from hsearch.data.store import Store
from hsearch.errors import ConfigError, did_you_mean
from hsearch.folds import Splits
from hsearch.methods import (
    available_methods,
    check_knobs,
    check_ranges,
    knobs_of,
    load_method,
)
from hsearch.recipes import DEFAULTS, load_recipe, recipe_knobs
from hsearch.results import OBJECTIVES, label_metric_names, level_prefix, metric_names
from hsearch.spec import (
    BatchSpec,
    FoldJob,
    ImageSpec,
    KnobValue,
    MethodSpec,
    ModelSpec,
    OptimizerSpec,
    ScheduleSpec,
    Spec,
    TrainingSpec,
)
from hsearch.training.optimizer import learning_rates, weight_decays
from hsearch.words import plural
from hsearch.yaml_file import Scalar, Value

SECTIONS = ("method", "model", "image", "batch", "optimizer", "schedule", "stages")

DATA = {"retrieval": "glyphs", "multilabel": "scenes"}
"""By task, the data where nobody names any."""


def resolve_job(
    *,
    method: str,
    settings: Mapping[str, Value],
    data: str | None = None,
    recipe: str | None = None,
    splits: Splits | None = None,
    fold: int = 0,
    seed: int = 0,
    objective: str | None = None,
) -> FoldJob:
    """Returns the job with every value filled in and checked, before anything is trained.

    A knob has the value given in `settings`, else the recipe's for this method, else the method's.

    Args:
        method: Name of a method.
        settings: Values by dotted key: `method.KNOB` or a setting of the recipe.
        data: Name, path or address of a store; by default the embedded one of the method's task.
        recipe: Name of a recipe; by default that of the method's task.
        splits: How classes are split; by default as the data's `default_splits` say. Images with
            several labels have one way only.
        fold: From 0.
        seed: Root of all draws.
        objective: The metric that decides which epoch is the best, one of the data's
            `metric_names` or of the `label_metric_names`; by default that of the method's task.
    """
    if data is not None and is_address(data):
        read_address(data)  # no message may repeat one that holds credentials
    _check_names(method, settings)
    kind = load_method(method)
    data = DATA[kind.task] if data is None else data
    recipe = DEFAULTS[kind.task] if recipe is None else recipe
    objective = OBJECTIVES[kind.task] if objective is None else objective
    knobs = {key.removeprefix("method."): v for key, v in settings.items() if _is_knob(key)}
    checked = check_knobs(method, {**recipe_knobs(recipe, method), **knobs})
    check_ranges(method, checked)  # before data are opened, which may render them first
    others = {key: value for key, value in settings.items() if not _is_knob(key)}
    training = load_recipe(recipe, others, kind.wishes)
    training = training.model_copy(update={"model": _with_absolute_weights(training.model)})
    _check_groups(method, training.optimizer, settings)
    _check_batches(method, training.batch)
    _check_stages(method, checked, training)
    store = open_data(data)
    _check_task(method, store)
    splits = default_splits(store) if splits is None else splits
    split_store(store, splits)  # which raises where there are no folds
    _check_objective(objective, data, store)
    dim = training.model.embedding_dim
    check_ranges(method, checked, store.hierarchy.num_levels, dim)
    # A path must still be right from another folder; of an address each machine makes its own copy.
    if not (is_name(data) or is_address(data)):
        data = str(store.path.resolve())
    return FoldJob(
        data=data,
        data_digest=store.digest,
        method=MethodSpec(name=method, knobs=checked),
        training=training,
        splits=splits,
        fold=fold,
        seed=seed,
        objective=objective,
    )


def _check_names(method: str, settings: Iterable[str]) -> None:
    known = _setting_names(method)
    for key in settings:
        if key not in known and key.split(".")[0] not in SECTIONS:
            raise ConfigError(f"Unknown setting '{key}'; {_nearest(key, known)}")


def _check_groups(method: str, optimizer: OptimizerSpec, settings: Iterable[str]) -> None:
    """A recipe may name groups of other methods, which a user does not mean to set."""
    kind = load_method(method)
    groups = learning_rates(optimizer, kind).keys() & weight_decays(optimizer, kind).keys()
    for key in settings:
        parent, _, group = key.rpartition(".")
        by_group = parent.endswith(("optimizer.lr", "optimizer.weight_decay"))
        if by_group and group not in groups:
            raise ConfigError(
                f"{method} has no group '{group}', so '{key}' cannot be set; "
                f"{did_you_mean(group, groups)}"
            )


def _check_batches(method: str, batch: BatchSpec, section: str = "batch") -> None:
    kind = load_method(method)
    if kind.task == "multilabel" and batch.sampler != "shuffle":
        raise ConfigError(
            f"{method} learns from images with several labels each, of which no sampler by classes "
            f"can draw, but got '{batch.sampler}'; add --set {section}.sampler=shuffle."
        )
    if not kind.supervised and batch.views is not None and batch.views < 2:
        raise ConfigError(
            f"{method} compares views of an image, so `{section}.views` must be at least 2, but "
            f"got {batch.views}."
        )


def _check_stages(method: str, knobs: Mapping[str, KnobValue], training: TrainingSpec) -> None:
    """Raises for what a stage cannot have, or what cannot change between stages."""
    parts = [part for _, part in training.parts()]
    for (name, stage), part in zip(training.stages.items(), parts, strict=False):
        try:
            _check_groups(method, part.optimizer, ())
            _check_batches(method, part.batch, f"stages.{name}.batch")
            _check_knobs_of_stage(method, knobs, stage.method)
        except ConfigError as error:
            raise ConfigError(f"In the stage `{name}`: {error}") from None


def _check_knobs_of_stage(
    method: str, knobs: Mapping[str, KnobValue], own: Mapping[str, KnobValue]
) -> None:
    checked, known = check_knobs(method, {**knobs, **own}), knobs_of(load_method(method))
    fixed = next((name for name in own if known[name].type is not float), None)
    if fixed:
        raise ConfigError(
            f"Only knobs that are fractions can change between stages, but got '{fixed}'; set it "
            f"for the whole training with method.{fixed}."
        )
    check_ranges(method, checked)


def _check_task(method: str, store: Store) -> None:
    several = load_method(method).task == "multilabel"
    if several == bool(store.tag_names):
        return
    learns, has = ("several labels", "one label path"), ("one label path", "several labels")
    fitting = available_methods("retrieval" if several else "multilabel")
    raise ConfigError(
        f"{method} learns from images with {learns[not several]} each, but those of "
        f"'{store.name}' have {has[not several]}; choose other data, or one of the methods "
        f"{', '.join(fitting)}."
    )


def _check_objective(objective: str, data: str, store: Store) -> None:
    num_levels = store.hierarchy.num_levels
    names = label_metric_names() if store.tag_names else metric_names(num_levels)
    if objective in names:
        return
    near = difflib.get_close_matches(objective.removeprefix(f"level_{num_levels - 1}/"), names, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    coarser = ""
    if num_levels > 1:
        named = zip(range(num_levels - 1), store.hierarchy.level_names, strict=False)
        before = " or ".join(f"`{level_prefix(level, num_levels)}` ({n})" for level, n in named)
        coarser = f"; before all but the h_ ones also {before} for a coarser level"
    have = "several labels each" if store.tag_names else plural(num_levels, "level")
    raise ConfigError(
        f"Unknown objective '{objective}' for '{data}' with {have}; {hint}"
        f"valid names: {', '.join(name for name in names if '/' not in name)}{coarser}."
    )


def _with_absolute_weights(model: ModelSpec) -> ModelSpec:
    """A path of weights must still be right from another folder."""
    if model.weights in ("pretrained", "random"):
        return model
    return model.model_copy(update={"weights": str(Path(model.weights).expanduser().resolve())})


def with_knobs(job: FoldJob, knobs: Mapping[str, KnobValue], fold: int | None = None) -> FoldJob:
    """Returns a complete job with other values of some knobs, checked, and maybe another fold.

    Args:
        job: To start from.
        knobs: Values by dotted key, such as `method.margin` or `optimizer.lr.proxies`.
        fold: From 0; by default the job's.
    """
    values = job.to_dict()
    for key, value in knobs.items():
        section, *inner, last = key.split(".")
        place: Any = values["method"] if section == "method" else values["training"]
        for part in ["knobs"] if section == "method" else [section, *inner]:
            place = place.setdefault(part, {})
        place[last] = value
    if fold is not None:
        values["fold"] = fold
    changed = FoldJob.from_dict(values)
    checked = check_knobs(job.method.name, changed.method.knobs)
    check_ranges(job.method.name, checked, embedding_dim=changed.training.model.embedding_dim)
    _check_stages(job.method.name, checked, changed.training)
    return changed.model_copy(update={"method": MethodSpec(name=job.method.name, knobs=checked)})


def parse_setting(text: str) -> tuple[str, Value]:
    """Reads `a.b=c`: true, false, null, a number, numbers with commas between, or else text."""
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise ConfigError(f"A setting must look like a.b=c, but got '{text}'.")
    parts = [_scalar(part.strip()) for part in value.strip("[]").split(",")]
    if len(parts) > 1 and all(isinstance(part, int | float) for part in parts):
        return key, list[Value](parts)
    return key, _scalar(value)


def _scalar(text: str) -> Scalar:
    words: dict[str, Scalar] = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_knob(key: str) -> bool:
    return key.startswith("method.")


def _setting_names(method: str) -> list[str]:
    knobs = [f"method.{name}" for name in knobs_of(load_method(method))]
    sections: tuple[type[Spec], ...] = (
        ModelSpec,
        ImageSpec,
        BatchSpec,
        OptimizerSpec,
        ScheduleSpec,
    )
    named = zip(SECTIONS[1:-1], sections, strict=True)
    return knobs + [f"{name}.{field}" for name, kind in named for field in kind.model_fields]


def _nearest(key: str, known: list[str]) -> str:
    same = [name for name in known if name.rpartition(".")[2] == key.rpartition(".")[2]]
    near = same or difflib.get_close_matches(key, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"settings begin with {', '.join(f'{name}.' for name in SECTIONS)}{hint}"

"""From what a user names to a complete job: method, data, recipe and single settings."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hsearch.addresses import is_address, read_address
from hsearch.data.library import is_name, open_data
from hsearch.data.splits import StoreSplits, default_splits, split_store
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
from hsearch.recipes import Recipe, compose, read_recipe, section
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
from hsearch.training.backbone_settings import fill_in_backbone
from hsearch.training.default_recipe import SMALL, DefaultRecipe, default_recipe
from hsearch.training.optimizer import learning_rates, weight_decays
from hsearch.words import plural
from hsearch.yaml_file import Scalar, Value

SECTIONS = ("method", "model", "image", "batch", "optimizer", "schedule", "stages")

DATA = {"retrieval": "glyphs", "multilabel": "scenes"}
"""By task, the data where nobody names any."""


@dataclass(frozen=True)
class ResolvedJob:
    """A complete job, and what a person should know about it.

    Attributes:
        job: With every value filled in and checked.
        recipe: That it was made of.
        why: Which recipe, and why this one: a sentence.
        notes: What of the recipe is left out, and why: a sentence each.
        warnings: What is probably not meant: a sentence each.
    """

    job: FoldJob
    recipe: Recipe
    why: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


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
    """Returns the job of `resolve` without what a person should know about it."""
    return resolve(
        method=method,
        settings=settings,
        data=data,
        recipe=recipe,
        splits=splits,
        fold=fold,
        seed=seed,
        objective=objective,
    ).job


def resolve(
    *,
    method: str,
    settings: Mapping[str, Value],
    data: str | None = None,
    recipe: str | None = None,
    splits: Splits | None = None,
    fold: int = 0,
    seed: int = 0,
    objective: str | None = None,
) -> ResolvedJob:
    """Returns the job with every value filled in and checked, before anything is trained.

    A setting has the value given in `settings`, else the recipe's for this method and regime, else
    what the method wishes where the recipe leaves it open, else the recipe's, else what the
    backbone brings along, else its default.

    Args:
        method: Name of a method.
        settings: Values by dotted key: `method.KNOB` or a setting of the recipe.
        data: Name, path or address of a store; by default the embedded one of the method's task.
        recipe: Name of a recipe, or path of a file; by default that which the data ask for.
        splits: How classes are split; by default as the recipe says, else as the data ask for.
            Images with several labels have one way only.
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
    objective = OBJECTIVES[kind.task] if objective is None else objective
    # What is wrong is found before data are opened, which may render them first.
    check_ranges(method, check_knobs(method, _knobs_of(settings)))
    named = None if recipe is None else resolve_training(read_recipe(recipe), method, settings)
    store = open_data(data)
    _check_task(method, store)
    made, asked = named, None
    if made is None:
        visible = split_store(store, splits or default_splits(store)).trainval
        asked = default_recipe(store, kind.task, visible)
        made = resolve_training(read_recipe(asked.name), method, settings)
    splits, images = _split(store, splits, made.recipe)
    _check_objective(objective, data, store)
    num_levels, dim = store.hierarchy.num_levels, made.training.model.embedding_dim
    check_ranges(method, made.knobs, num_levels, dim)
    # A path must still be right from another folder; of an address each machine makes its own copy.
    if not (is_name(data) or is_address(data)):
        data = str(store.path.resolve())
    job = FoldJob(
        data=data,
        data_digest=store.digest,
        method=MethodSpec(name=method, knobs=made.knobs),
        training=made.training,
        splits=splits,
        fold=fold,
        seed=seed,
        objective=objective,
    )
    warnings = _warnings(made, store, kind.task, images) if asked is None else ()
    return ResolvedJob(job, made.recipe, _why(made, asked), made.notes, warnings)


@dataclass(frozen=True)
class ResolvedTraining:
    """What a recipe and settings come to for a method, whatever the data.

    Attributes:
        recipe: That it was made of.
        training: All settings.
        knobs: Values of all knobs of the method.
        notes: What of the recipe is left out, and why: a sentence each.
    """

    recipe: Recipe
    training: TrainingSpec
    knobs: dict[str, KnobValue]
    notes: tuple[str, ...]


def resolve_training(
    recipe: Recipe, method: str, settings: Mapping[str, Value]
) -> ResolvedTraining:
    """Returns what a recipe and settings come to for a method, checked as far as without data."""
    kind = load_method(method)
    regime = settings.get("model.regime")
    given = recipe.settings_for(method, None if regime is None else str(regime))
    with _in_file(recipe, "methods", method):
        _check_names(method, given)
        own = {name: value for name, value in _knobs_of(given).items() if value is not None}
        checked = check_knobs(method, {**own, **_knobs_of(settings)})
        check_ranges(method, checked)
    others = _without_knobs(settings)
    content = compose(recipe, others, kind.wishes, _without_knobs(given))
    notes = _drop_stage_knobs(content, method, settings)
    fill_in_backbone(content, recipe, others, maps=kind.features == "map")
    training = TrainingSpec.from_dict(content)
    training = training.model_copy(update={"model": _with_absolute_weights(training.model)})
    with _in_file(recipe, "optimizer"):
        learning_rates(training.optimizer, kind)
        weight_decays(training.optimizer, kind)
    _check_groups(method, training.optimizer, settings)
    _check_batches(method, training.batch)
    _check_stages(method, checked, training)
    notes += _idle_groups(training.optimizer, method, settings)
    return ResolvedTraining(recipe, training, checked, tuple(notes))


@contextmanager
def _in_file(recipe: Recipe, *keys: str) -> Iterator[None]:
    """Says in which file of the user's own a fault is."""
    try:
        yield
    except ConfigError as error:
        raise (recipe.file.error(str(error), *keys) if recipe.own else error) from None


def _drop_stage_knobs(
    content: dict[str, Value], method: str, settings: Mapping[str, Value]
) -> list[str]:
    """Takes away knobs of stages that only other methods have, and says which."""
    known, notes = knobs_of(load_method(method)), []
    for stage, values in section(content, "stages").items():
        knobs = section(values, "method") if isinstance(values, dict) else {}
        for knob in [name for name in knobs if name not in known]:
            if f"stages.{stage}.method.{knob}" not in settings:
                del knobs[knob]
                notes.append(_no_use(method, [f"stages.{stage}.method.{knob}"]))
    return notes


def _idle_groups(optimizer: OptimizerSpec, method: str, settings: Iterable[str]) -> list[str]:
    """Says which rates of a recipe are of groups that the method does not have."""
    groups = {"backbone", "head", *load_method(method).groups}
    decay = optimizer.weight_decay
    given = {"lr": optimizer.lr, "weight_decay": decay if isinstance(decay, dict) else {}}
    idle = [f"optimizer.{key}.{g}" for key, by in given.items() for g in by if g not in groups]
    idle = [name for name in idle if name not in settings]
    return [_no_use(method, idle)] if idle else []


def _no_use(method: str, names: list[str]) -> str:
    return f"Left out of the recipe, as {method} has no use for it: {', '.join(names)}."


def _split(store: Store, given: Splits | None, recipe: Recipe) -> tuple[Splits, StoreSplits]:
    """The splits, which raise where there are no folds, and their images."""
    splits = given or recipe.splits or default_splits(store)
    try:
        return splits, split_store(store, splits)
    except ConfigError as error:
        if given or not recipe.splits:
            raise
        raise ConfigError(
            f"The recipe {recipe.name} has `{splits}` splits, which '{store.name}' cannot have: "
            f"{str(error).rstrip('.')}. Say --splits disjoint for other folds by the same recipe."
        ) from None


def _why(made: ResolvedTraining, asked: DefaultRecipe | None) -> str:
    """Which recipe it is, and why."""
    what = f"Recipe {made.recipe.name} ({_network_words(made.training.model)})"
    if asked is None:
        return f"{what}, as --recipe says."
    return f"{what}, because {asked.why}; --recipe changes it."


def _network_words(model: ModelSpec) -> str:
    if model.weights == "random":
        return "a network from scratch"
    return {
        "frozen": "a frozen pretrained backbone",
        "lora": "a pretrained backbone with adapters",
        "full": "a pretrained backbone, all of which trains",
    }[model.regime]


def _warnings(
    made: ResolvedTraining, store: Store, task: str, images: StoreSplits
) -> tuple[str, ...]:
    """What is probably not meant: tiny networks from scratch on photos."""
    name = made.recipe.name
    if name not in SMALL.values() or made.training.model.weights != "random":
        return ()
    fitting = default_recipe(store, task, images.trainval)
    if fitting.name in SMALL.values():
        return ()
    return (
        f"{name} trains a small network from scratch, but {fitting.why}: better leave "
        f"--recipe out, for {fitting.name}.",
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


def _knobs_of(settings: Mapping[str, Value]) -> dict[str, Value]:
    return {key.removeprefix("method."): v for key, v in settings.items() if _is_knob(key)}


def _without_knobs(settings: Mapping[str, Value]) -> dict[str, Value]:
    return {key: value for key, value in settings.items() if not _is_knob(key)}


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

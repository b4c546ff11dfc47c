"""From what a user names to a complete study: its spec and its space, before anything starts."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from hsearch.data.library import open_data
from hsearch.data.splits import split_store
from hsearch.errors import ConfigError
from hsearch.folds import NUM_FOLDS, Splits
from hsearch.methods import load_method
from hsearch.recipes import is_unset
from hsearch.search.domain import Choices, KnobRange, StartPoint, condition_words
from hsearch.search.proposal import points_that_coincide, value_in
from hsearch.search.record import Sampler, StudySpec
from hsearch.search.settings import searchable_settings
from hsearch.search.space import SearchSpace, load_space
from hsearch.spec import FoldJob, KnobValue, StageSpec
from hsearch.training.resolve import resolve
from hsearch.words import typed
from hsearch.yaml_file import Value

TRIALS = 50
SAMPLER: Sampler = "tpe"
"""What a search has where neither the command line nor the recipe says."""


@dataclass(frozen=True)
class StudyPlan:
    """A study that can begin.

    Attributes:
        spec: What goes into the record.
        space: What is searched, for the data's number of classes and without the knobs that the
            user has set.
        trials: How many it is to have.
        why: Which recipe, and why this one: a sentence.
        notes: What of the recipe and the start points is left out: a sentence each.
        warnings: What is probably not meant: a sentence each.
    """

    spec: StudySpec
    space: SearchSpace
    trials: int = TRIALS
    why: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def default_name(self) -> str:
        """DATA-METHOD-DIGEST: the same settings give the same name."""
        job = self.spec.job
        data = re.sub(r"[^A-Za-z0-9._-]+", "-", job.data_name).strip("-._")
        return f"{data or 'data'}-{job.method.name}-{self.spec.digest()[:6]}"

    def check_workers(self, workers: int) -> None:
        """Raises if any batch that the study may draw cannot be shared by so many workers."""
        sizes = list(self.spec.job.training.batch_sizes)
        for knob in self.space.knobs:
            if knob.name.endswith("batch.size"):  # of the recipe or of a stage
                domain = knob.domain
                few = domain.values if isinstance(domain, Choices) else (domain.low, domain.step)
                sizes += [int(size or 1) for size in few]
        check_share(sizes, workers)


def check_share(sizes: Iterable[int], workers: int) -> None:
    """Raises if a batch of any of these sizes cannot be shared by so many workers."""
    for size in sizes:
        if size % workers:
            raise ConfigError(
                "`batch.size` must be a multiple of --workers-per-fold, so that every worker gets "
                f"an equal part, but got {size} and {workers}."
            )


def plan_study(
    *,
    method: str,
    settings: Mapping[str, Value],
    data: str | None = None,
    recipe: str | None = None,
    splits: Splits | None = None,
    seed: int = 0,
    objective: str | None = None,
    trials: int | None = None,
    sampler: Sampler | None = None,
    race: bool = True,
    space_file: Path | None = None,
    start_from: str | None = None,
) -> StudyPlan:
    """Returns the study with every value filled in and checked.

    Args:
        method: Name of a method.
        settings: Values by dotted key; a knob that stands here is not searched.
        data: Name or path of a store; by default the embedded one of the method's task.
        recipe: Name of a recipe, or path of a file; by default that which the data ask for.
        splits: How classes are split; by default as the recipe says, else as the data ask for.
        seed: Root of all draws, of every job and of the sampler.
        objective: The metric that decides the best epoch of a fold and the best trial; by default
            that of the method's task.
        trials: How many; by default as the recipe says, else `TRIALS`.
        sampler: Who proposes knobs; by default as the recipe says, else `SAMPLER`.
        race: Whether trials that are clearly behind end early.
        space_file: The user's own space instead of the method's.
        start_from: Name of a study whose best trials are tried first; `start_from.py` finds them.
    """
    resolved = resolve(
        method=method,
        data=data,
        recipe=recipe,
        settings=settings,
        splits=splits,
        seed=seed,
        objective=objective,
    )
    job, from_recipe = resolved.job, resolved.recipe
    space = load_space(method, space_file, job.training.stages)
    if space_file is None:
        space = space.with_ranges(from_recipe, job.training.stages)
    given = [key for key, value in settings.items() if not is_unset(key, value)]
    space = _left_to_search(space, job, given, own_space=space_file is not None)
    if not space.knobs:
        raise ConfigError(
            f"A search needs a knob to search, but all knobs of {method} are set "
            "or do nothing on this data; leave a --set out, or use `hsearch train`."
        )
    spec = StudySpec(
        job=job,
        space={knob.name: describe(knob) for knob in space.knobs},
        sampler=sampler or cast("Sampler | None", from_recipe.sampler) or SAMPLER,
        race=race,
        start_from=start_from,
    )
    left_out = [f"Left out: the start point {p.source}, as {why}." for p, why in space.left_out]
    left_out += [
        f"Left out: the start point {source}, as here it is the same as {other}."
        for source, other in points_that_coincide(job, space)
    ]
    return StudyPlan(
        spec,
        space,
        trials or from_recipe.trials or TRIALS,
        resolved.why,
        (*resolved.notes, *left_out),
        resolved.warnings,
    )


def _left_to_search(
    space: SearchSpace, job: FoldJob, settings: Iterable[str], *, own_space: bool
) -> SearchSpace:
    """The space for the job's data: without knobs that are set, or do nothing in this training."""
    store = open_data(job.data)
    splits = split_store(store, job.splits)
    classes = min(len(splits.fold(number).classes) for number in range(NUM_FOLDS))
    known = {f"method.{name}": value for name, value in job.method.knobs.items()}
    space = replace(space.for_classes(classes), published=known)
    idle = [
        knob.name
        for knob in space.knobs
        if knob.min_levels > store.hierarchy.num_levels
        or not _is_of_stage(job, knob.name, own_space)
        or _is_rate_of_nothing(job, knob.name, space)
    ]
    searchable = searchable_settings(job.method.name, job.training.stages)
    fixed = [key for key in (*idle, *settings) if key in searchable]
    return without(space, {key: value_in(job, key) for key in fixed})


def _is_of_stage(job: FoldJob, knob: str, own_space: bool) -> bool:
    """Whether the stage that a knob belongs to is there; true for those of no stage.

    What a stage takes over from the rest of the recipe is searched there, unless a space of the
    user's own names it.
    """
    section, name, *inner = knob.split(".")
    if section != "stages":
        return True
    stage: object = job.training.stages.get(name)
    if isinstance(stage, StageSpec) and not own_space:
        stage = stage.to_dict()
        for key in inner:
            stage = stage.get(key) if isinstance(stage, dict) else None
    return stage is not None


def _is_rate_of_nothing(job: FoldJob, knob: str, space: SearchSpace) -> bool:
    """Whether a knob is the backbone's learning rate, no backbone trains, and no group follows it.

    Groups without a rate of their own follow the backbone's.
    """
    if not knob.endswith("optimizer.lr.backbone") or job.training.model.regime != "frozen":
        return False
    kind, prefix = load_method(job.method.name), knob.removesuffix("backbone")
    searched = {other.name.removeprefix(prefix) for other in space.knobs}
    groups = {*kind.groups, "head"} if kind.features == "vector" else {*kind.groups}
    return not groups - job.training.optimizer.lr.keys() - searched


def without(space: SearchSpace, fixed: Mapping[str, KnobValue | None]) -> SearchSpace:
    """Returns the space without knobs that have a fixed value, and without those it rules out.

    Start points that contradict a fixed value are left out; the others lose the fixed knobs.

    Args:
        space: The whole space.
        fixed: Values by dotted key; None for a setting that is switched off.
    """
    values = {name: value for name, value in fixed.items() if value is not None}
    published = {**space.published, **values}
    knobs: list[KnobRange] = []
    for knob in space.knobs:
        open_names = {other.name for other in knobs}
        settled = {n: v for n, v in knob.when.items() if n not in open_names}
        if knob.name not in fixed and replace(knob, when=settled).is_active(published):
            knobs.append(knob)
    names = {knob.name for knob in knobs}
    start, left_out = [], list(space.left_out)
    for point in space.start:
        if against := [n for n, v in point.values.items() if values.get(n, v) != v]:
            is_set = ", ".join(f"{name} is {typed(values[name])}" for name in against)
            left_out.append((point, is_set))
        elif not names & point.values.keys():
            left_out.append((point, "none of its knobs is searched"))
        else:
            kept = {n: v for n, v in point.values.items() if n in names}
            start.append(StartPoint(point.source, kept))
    return replace(
        space,
        knobs=tuple(knobs),
        start=tuple(start),
        published=published,
        left_out=tuple(left_out),
    )


def describe(knob: KnobRange) -> str:
    """Returns the range of a knob and its condition as text."""
    condition = condition_words(knob.when)
    return f"{knob.domain}; when {condition}" if condition else str(knob.domain)

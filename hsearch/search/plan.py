"""From what a user names to a complete study: its spec and its space, before anything starts."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hsearch.data.library import open_data
from hsearch.data.splits import split_store
from hsearch.errors import ConfigError
from hsearch.folds import NUM_FOLDS, Splits
from hsearch.search.domain import Choices, KnobRange, StartPoint, condition_words
from hsearch.search.proposal import value_in
from hsearch.search.record import Sampler, StudySpec
from hsearch.search.settings import searchable_settings
from hsearch.search.space import SearchSpace, load_space
from hsearch.spec import FoldJob, KnobValue, StageSpec
from hsearch.training.resolve import resolve_job
from hsearch.yaml_file import Value


@dataclass(frozen=True)
class StudyPlan:
    """A study that can begin.

    Attributes:
        spec: What goes into the record.
        space: What is searched, for the data's number of classes and without the knobs that the
            user has set.
    """

    spec: StudySpec
    space: SearchSpace

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
    sampler: Sampler = "tpe",
    race: bool = True,
    space_file: Path | None = None,
) -> StudyPlan:
    """Returns the study with every value filled in and checked.

    Args:
        method: Name of a method.
        settings: Values by dotted key; a knob that stands here is not searched.
        data: Name or path of a store; by default the embedded one of the method's task.
        recipe: Name of a recipe; by default that of the method's task.
        splits: How classes are split; by default as the data's `default_splits` say.
        seed: Root of all draws, of every job and of the sampler.
        objective: The metric that decides the best epoch of a fold and the best trial; by default
            that of the method's task.
        sampler: Who proposes knobs.
        race: Whether trials that are clearly behind end early.
        space_file: The user's own space instead of the method's.
    """
    job = resolve_job(
        method=method,
        data=data,
        recipe=recipe,
        settings=settings,
        splits=splits,
        seed=seed,
        objective=objective,
    )
    space = load_space(method, space_file, job.training.stages)
    space = _left_to_search(space, job, settings, own_space=space_file is not None)
    if not space.knobs:
        raise ConfigError(
            f"A search needs a knob to search, but all knobs of {method} are set "
            "or do nothing on this data; leave a --set out, or use `hsearch train`."
        )
    described = {knob.name: describe(knob) for knob in space.knobs}
    return StudyPlan(StudySpec(job=job, space=described, sampler=sampler, race=race), space)


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


def without(space: SearchSpace, fixed: Mapping[str, KnobValue | None]) -> SearchSpace:
    """Returns the space without knobs that have a fixed value, and without those it rules out.

    Start points that contradict a fixed value are dropped; the others lose the fixed knobs.

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
    start = tuple(
        StartPoint(point.source, {n: v for n, v in point.values.items() if n in names})
        for point in space.start
        if all(values.get(name, value) == value for name, value in point.values.items())
        and names & point.values.keys()
    )
    return replace(space, knobs=tuple(knobs), start=start, published=published)


def describe(knob: KnobRange) -> str:
    """Returns the range of a knob and its condition as text."""
    condition = condition_words(knob.when)
    return f"{knob.domain}; when {condition}" if condition else str(knob.domain)

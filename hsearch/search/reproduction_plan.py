"""From a study to what is trained again: the best trial's knobs by one of two protocols."""

from collections.abc import Mapping

from hsearch.data.library import open_data
from hsearch.errors import ConfigError
from hsearch.folds import ALL_CLASSES
from hsearch.methods import load_method
from hsearch.search.record import StudyRecord, TrialRecord
from hsearch.search.reproduced import Protocol, ReproductionSpec
from hsearch.spec import KnobValue
from hsearch.training.resolve import resolve_job
from hsearch.words import plural
from hsearch.yaml_file import Value

CLASSIC_RECIPES = {"retrieval": "hpl/classic", "multilabel": "mulcon/coco"}
"""By task. ResNet-50 with average and max pooling, 512-d, AdamW 1e-4, 30 epochs; or ResNet-101."""


def plan_reproduction(
    study: StudyRecord,
    trial: TrialRecord,
    protocol: Protocol,
    *,
    seed: int,
    runs: int,
    recipe: str | None = None,
    settings: Mapping[str, Value] | None = None,
) -> ReproductionSpec:
    """Returns what is trained again, checked before anything starts.

    `cross-validated` trains the very trial with other seeds on all folds. `classic` trains one
    network on all classes but the test classes, by the settings that the field's older papers
    share, with the trial's knobs.

    Args:
        study: The record of the search.
        trial: One of its complete trials.
        protocol: Which of the two.
        seed: Of the first run; the others have the next ones.
        runs: How many.
        recipe: Of `classic` alone; by default that of `CLASSIC_RECIPES`.
        settings: Of `classic` alone, by dotted key; they go before the trial's knobs.
    """
    _check(study, trial, seed, runs)
    job = trial.job
    if protocol == "cross-validated":
        if recipe or settings:
            raise ConfigError(
                "A cross-validated reproduction trains the very trial; `--recipe` and `--set` "
                "belong to `--protocol classic`."
            )
        job = job.model_copy(update={"seed": seed, "fold": 0})
    else:
        knobs = {f"method.{name}": value for name, value in job.method.knobs.items()}
        job = resolve_job(
            method=job.method.name,
            data=job.data,
            recipe=recipe or CLASSIC_RECIPES[load_method(job.method.name).task],
            settings={**knobs, **_but_parts(trial.knobs, settings or {}), **(settings or {})},
            splits=job.splits,
            fold=ALL_CLASSES,
            seed=seed,
            objective=job.objective,
        )
    return ReproductionSpec(study=study.name, trial=trial.number, protocol=protocol, job=job)


def _but_parts(knobs: Mapping[str, KnobValue], wholes: Mapping[str, Value]) -> dict[str, KnobValue]:
    """Knobs that are no part of a whole that is set, such as `stages`."""
    return {n: v for n, v in knobs.items() if not any(n.startswith(f"{w}.") for w in wholes)}


def _check(study: StudyRecord, trial: TrialRecord, seed: int, runs: int) -> None:
    """Raises unless the trial is complete, its data are as they were, and the seeds are new."""
    if trial.state != "complete":
        raise ConfigError(
            f"Only a trial with all folds can be reproduced, but trial {trial.number} of "
            f"'{study.name}' has {plural(len(trial.folds), 'fold')}; leave `--trial` out for the "
            "best one."
        )
    searched = study.spec.job.seed
    if seed <= searched < seed + runs:
        raise ConfigError(
            f"A reproduction needs seeds that the search has not seen, but {searched} is its own "
            f"and one of {seed}..{seed + runs - 1}; give another first one with `--seed`."
        )
    if open_data(trial.job.data).digest != trial.job.data_digest:
        raise ConfigError(
            f"The data set '{trial.job.data}' has changed since '{study.name}' was searched, so "
            "that its test may be another; search again on the new data."
        )

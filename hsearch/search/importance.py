"""How much each knob mattered in a study, by PED-ANOVA on its record."""

import math
import statistics
from collections.abc import Mapping, Sequence

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.importance import PedAnovaImportanceEvaluator

from hsearch.search.record import StudyRecord
from hsearch.spec import KnobValue

FEWEST_TRIALS = 10
"""With a value of the knob, for its importance to mean anything."""

_LEAST_SHARE = 0.1
_FEWEST_GOOD = 5


def expected_scores(record: StudyRecord) -> dict[int, float]:
    """Returns the score of every complete trial and what those that lost would have had.

    A trial that lost is as far behind the best one on all folds as on those that both have: folds
    differ in difficulty, which the difference takes out, as the race itself does.

    Returns:
        By trial number; trials that failed or run are not in it.
    """
    best = record.best
    if best is None or best.score is None:
        return {}
    scores = {}
    for trial in record.trials:
        if trial.state == "complete" and trial.score is not None:
            scores[trial.number] = trial.score
        elif trial.state == "lost" and trial.folds:
            behind = [best.folds[fold].score - trial.folds[fold].score for fold in trial.folds]
            scores[trial.number] = best.score - statistics.fmean(behind)
    return scores


def knob_importances(record: StudyRecord) -> dict[str, float]:
    """Returns the share of each knob in what sets good trials apart, largest first; their sum is 1.

    PED-ANOVA compares where the best trials lie with where all lie, one knob at a time. The best
    are a tenth, but at least five. Each knob is judged by the trials that have it, with the scores
    of `expected_scores`; one that fewer than FEWEST_TRIALS have, or that never changed, is left
    out, and nothing is left of a study that is too small.

    References:
        Watanabe et al., PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary
        Subspaces, IJCAI 2023, arXiv:2304.10255.
    """
    scores = expected_scores(record)
    found = {}
    for knob in record.spec.space:
        values = {t.number: t.knobs[knob] for t in record.trials if knob in t.knobs}
        numbers = [number for number in values if number in scores]
        if len(numbers) >= FEWEST_TRIALS and len({values[number] for number in numbers}) > 1:
            log = record.spec.is_log(knob)
            found[knob] = _importance(knob, [values[n] for n in numbers], log, numbers, scores)
    total = sum(found.values())
    shares = {knob: value / total for knob, value in found.items()} if total > 0 else {}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _importance(
    knob: str,
    values: Sequence[KnobValue],
    log: bool,
    numbers: Sequence[int],
    scores: Mapping[int, float],
) -> float:
    distribution = _distribution(values, log)
    study = optuna.create_study(
        storage=optuna.storages.InMemoryStorage(), direction=optuna.study.StudyDirection.MAXIMIZE
    )
    study.add_trials(
        optuna.trial.create_trial(
            params={knob: value}, distributions={knob: distribution}, value=scores[number]
        )
        for value, number in zip(values, numbers, strict=True)
    )
    good = math.ceil(max(_LEAST_SHARE * len(values), _FEWEST_GOOD))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=good / len(values))
    return evaluator.evaluate(study, [knob])[knob]


def _distribution(values: Sequence[KnobValue], log: bool) -> BaseDistribution:
    """The smallest range that holds the values."""
    if any(isinstance(value, str | bool) for value in values):
        return CategoricalDistribution(sorted(set(values), key=str))
    low, high = min(values), max(values)
    if all(isinstance(value, int) for value in values):
        return IntDistribution(int(low), int(high), log)
    return FloatDistribution(float(low), float(high), log)

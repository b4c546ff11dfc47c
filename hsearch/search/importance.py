"""How much each knob mattered in a study, by PED-ANOVA on its record."""

import statistics
import warnings
from collections.abc import Mapping, Sequence

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.importance import PedAnovaImportanceEvaluator
from optuna.storages import InMemoryStorage
from optuna.trial import create_trial

from hsearch.search.record import StudyRecord, TrialRecord
from hsearch.spec import KnobValue

optuna.logging.set_verbosity(optuna.logging.ERROR)  # it would tell of every study in memory

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
            shared = zip(best.scores, trial.scores, strict=False)  # it has the first folds alone
            behind = [ahead - score for ahead, score in shared]
            scores[trial.number] = max(0.0, best.score - statistics.fmean(behind))
    return scores


def knob_importances(record: StudyRecord) -> dict[str, float]:
    """Returns the share of each knob in what sets good trials apart, largest first; their sum is 1.

    PED-ANOVA compares where the best trials lie with where all lie, one knob at a time; the best
    are a tenth, but at least five. Scores are those of `expected_scores`. A knob that fewer than
    FEWEST_TRIALS have, or that never changed, is left out: of a study that is too small, all are.

    References:
        Watanabe et al., PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary
        Subspaces, IJCAI 2023, arXiv:2304.10255.
    """
    scores = expected_scores(record)
    trials = [trial for trial in record.trials if trial.number in scores]
    ranges = {}
    for knob in record.spec.space:
        values = [trial.knobs[knob] for trial in trials if knob in trial.knobs]
        if len(values) >= FEWEST_TRIALS and len(set(values)) > 1:
            ranges[knob] = _distribution(values, log=record.spec.is_log(knob))
    study = _scored_study(trials, scores, ranges)
    good = max(_LEAST_SHARE, _FEWEST_GOOD / max(len(trials), FEWEST_TRIALS))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=good)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about knobs that all trials but one have, or lack
        found = {knob: evaluator.evaluate(study, [knob])[knob] for knob in ranges}
    total = sum(found.values())
    shares = {knob: value / total for knob, value in found.items()} if total > 0 else {}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _scored_study(
    trials: Sequence[TrialRecord],
    scores: Mapping[int, float],
    ranges: Mapping[str, BaseDistribution],
) -> optuna.Study:
    study = optuna.create_study(storage=InMemoryStorage(), direction="maximize")
    for trial in trials:
        own = {knob: range_ for knob, range_ in ranges.items() if knob in trial.knobs}
        knobs = {knob: trial.knobs[knob] for knob in own}
        value = scores[trial.number]
        study.add_trial(create_trial(params=knobs, distributions=own, value=value))
    return study


def _distribution(values: Sequence[KnobValue], *, log: bool) -> BaseDistribution:
    """The smallest range that holds the values."""
    if any(isinstance(value, str | bool) for value in values):
        return CategoricalDistribution(sorted(set(values), key=str))
    numbers = [value for value in values if not isinstance(value, str)]
    low, high = min(numbers), max(numbers)
    if all(isinstance(value, int) for value in numbers):
        return IntDistribution(int(low), int(high), log)
    return FloatDistribution(float(low), float(high), log)

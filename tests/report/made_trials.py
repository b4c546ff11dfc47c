"""Records of a made-up study whose scores follow from one knob, in every state a trial can end."""

import math
from collections.abc import Iterable

import numpy as np

from hsearch.folds import NUM_FOLDS
from hsearch.results import EpochRecord
from hsearch.search.race import noise_sd, verdict
from hsearch.search.record import StudyRecord, StudySpec, TrialRecord, TrialState
from hsearch.spec import KnobValue
from hsearch.training.resolve import with_knobs
from tests.search.made_results import made_job, made_result

JOB = made_job("hpl")
DIFFICULTY = (0.0, 0.08, -0.05, 0.03)
KNOBS = {
    "method.base": "proxy_anchor, proxy_nca",
    "method.fine_margin": "0 to 0.4; when method.base = proxy_anchor",
    "method.num_coarse": "2 to 100, log",
    "optimizer.lr.proxies": "0.0001 to 1, log",
}
HOUR = 3600.0


def made_trial(
    number: int,
    state: TrialState,
    scores: Iterable[float],
    knobs: dict[str, KnobValue] | None = None,
    *,
    hours: float = 0.5,
) -> TrialRecord:
    """A trial whose every fold took so many hours, half of them in the untrained network's."""
    knobs = knobs or {"method.num_coarse": 4 + number}
    folds = {}
    for fold, score in enumerate(scores):
        result = made_result(with_knobs(JOB, knobs, fold), float(score), epochs=1)
        epochs = [_lasting(epoch, hours * HOUR / 2) for epoch in result.history]
        folds[fold] = result.model_copy(update={"history": tuple(epochs)})
    return TrialRecord(
        number=number,
        state=state,
        source="published" if number == 0 else "tpe",
        knobs=knobs,
        job=with_knobs(JOB, knobs),
        folds=folds,
        started=1.8e9 + 100 * number,
        ended=None if state == "running" else 1.8e9 + 100 * number + 90,
    )


def made_record(num_trials: int) -> StudyRecord:
    """A race: the rate of the proxies decides, best at 0.01; every ninth trial fails."""
    rng = np.random.default_rng(0)
    trials: list[TrialRecord] = []
    best: list[float] | None = None
    for number in range(num_trials):
        knobs: dict[str, KnobValue] = {
            "method.base": str(rng.choice(["proxy_anchor", "proxy_nca"])),
            "method.num_coarse": round(float(2 * 50 ** rng.uniform())),
            "optimizer.lr.proxies": float(10 ** rng.uniform(-4, 0)),
        }
        if knobs["method.base"] == "proxy_anchor":
            knobs["method.fine_margin"] = float(rng.uniform(0, 0.4))
        rate = math.log10(float(knobs["optimizer.lr.proxies"]))
        scores = [0.55 - 0.08 * abs(rate + 2) + d + rng.normal(0, 0.01) for d in DIFFICULTY]
        state, count = _end(number, scores, best, [t.scores for t in trials if t.score])
        trials.append(made_trial(number, state, scores[:count], knobs))
        if state == "complete" and (best is None or np.mean(scores) > np.mean(best)):
            best = scores
    return StudyRecord(
        name="glyphs-hpl-a1b2c3",
        spec=StudySpec(job=JOB, space=KNOBS),
        trials=tuple(trials),
        searching=False,
    )


def _end(
    number: int, scores: list[float], best: list[float] | None, complete: list[list[float]]
) -> tuple[TrialState, int]:
    if number % 9 == 5:
        return "failed", 1
    for count in range(1, NUM_FOLDS):
        if best and verdict(scores[:count], best, noise_sd(complete)).lost:
            return "lost", count
    return "complete", NUM_FOLDS


def _lasting(epoch: EpochRecord, seconds: float) -> EpochRecord:
    return epoch.model_copy(update={"seconds": seconds})

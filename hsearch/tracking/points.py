"""The metrics that MLflow shall show: curves of the folds, means of a trial, scores of a study.

All of it follows from the record alone, time stamps included. A study's run has about ten metrics,
which every other run shares where they apply, so that all runs have the same columns in MLflow's
list. MLflow sorts names by the alphabet and plots the first ones: `score/` stands before `search/`,
and the scores on the test images stand before those of the validation.
"""

import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hsearch.folds import NUM_FOLDS
from hsearch.intervals import mean_of
from hsearch.results import FoldResult
from hsearch.search.record import StudyRecord, TrialRecord

KEY_LENGTH = 250
DIGITS = 6
"""Significant digits of a metric: MLflow shows all digits of a number, the record has them all."""

TEST = "score/test"
"""Mean over reproductions of the objective on the test images, each network alone; of a
reproduction its own. Beside it `_low` and `_high`, the 95 % interval, `_floor` and `_concatenated`.
"""
TEST_CLASSIC = "score/test_classic"
"""As `TEST`, by the classic protocol."""
VAL = "score/val"
"""Mean over the folds of the objective on the validation images: of a trial, or of the best one."""
VAL_SEM = "score/val_sem"
"""Standard error of `VAL` over the folds."""
VAL_FLOOR = "score/val_floor"
"""What the frozen backbone's own features score on the same folds."""
BEST_TRIAL = "search/best_trial"
FOLDS_SAVED = "search/folds_saved"
FOLDS_TRAINED = "search/folds_trained"
TRIALS = "search/trials"


class Point(NamedTuple):
    """One value of a metric; `time` in milliseconds since the epoch."""

    key: str
    value: float
    step: int
    time: int


def trial_points(trial: TrialRecord) -> Iterator[Point]:
    """Yields the curves of a trial's folds and, with all folds there, its score and all means."""
    for fold, result in trial.folds.items():
        yield from fold_points(trial.started, fold, result)
    if trial.state == "complete":
        values = {**_scores(trial), **_means(trial)}
        yield from points_of(values, step=0, time=milliseconds(trial.ended or trial.started))


def study_points(record: StudyRecord, since: int = 0) -> Iterator[Point]:
    """Yields the state of the study after each finished trial, in the order they finished in.

    The step is the number of finished trials, so the curve of `VAL` is that of the best trial so
    far. The score comes first: MLflow's comparison plots the first metric that was written.

    Args:
        record: The study as recorded now.
        since: The first step that is wanted.
    """
    finished = [(trial.ended, trial.number, trial) for trial in record.trials if trial.ended]
    trained = saved = 0
    best: TrialRecord | None = None
    for step, (ended, _, trial) in enumerate(sorted(finished, key=lambda f: f[:2]), start=1):
        trained += len(trial.folds)
        saved += NUM_FOLDS - len(trial.folds) if trial.state == "lost" else 0
        if trial.state == "complete" and _rank(trial) > _rank(best):
            best = trial
        if step < since:
            continue
        values: dict[str, float | None] = {} if best is None else _scores(best)
        values |= {BEST_TRIAL: None if best is None else best.number}
        values |= {FOLDS_SAVED: saved, FOLDS_TRAINED: trained, TRIALS: step}
        yield from points_of(values, step=step, time=milliseconds(ended))
    if best is not None:
        began = milliseconds(record.trials[0].started)
        yield from points_of({VAL_FLOOR: record.floor}, step=0, time=began)


def _scores(trial: TrialRecord) -> dict[str, float | None]:
    return {VAL: trial.score, VAL_SEM: trial.sem}


def _rank(trial: TrialRecord | None) -> tuple[float, int]:
    """Orders trials as `StudyRecord.best` does: by the mean, the earliest among equals."""
    if trial is None or trial.score is None:
        return -math.inf, 0
    return trial.score, -trial.number


def fold_points(started: float, fold: int, result: FoldResult) -> Iterator[Point]:
    """Yields all curves of one fold, by epoch, as if it had begun at `started`."""
    seconds = started
    for epoch in result.history:
        seconds += epoch.seconds
        values = {
            "train/loss": epoch.loss,
            "train/seconds": epoch.seconds,
            "train/images_per_second": epoch.images_per_second,
            **{f"lr/{group}": rate for group, rate in epoch.lr.items()},
            **{f"val/{name}": value for name, value in (epoch.validation or {}).items()},
        }
        named = {f"fold{fold}/{name}": value for name, value in values.items()}
        yield from points_of(named, step=epoch.epoch, time=milliseconds(seconds))
    best = {f"fold{fold}/best/{name}": value for name, value in result.validation.items()}
    best[f"fold{fold}/best/epoch"] = float(result.best_epoch)
    yield from points_of(best, step=result.best_epoch, time=milliseconds(seconds))


def _means(trial: TrialRecord) -> dict[str, float]:
    """Mean, standard error and 95 % t-interval over all folds of every metric at the best epochs.

    A metric that a fold lacks, or that is no number in one of them, has none.
    """
    folds = [result.validation for result in trial.folds.values()]
    found: dict[str, float] = {}
    for name in folds[0]:
        values = [fold.get(name, math.nan) for fold in folds]
        if not all(map(math.isfinite, values)):
            continue
        mean = mean_of(values)
        found[f"mean/val/{name}"] = mean.mean
        found[f"sem/val/{name}"] = (mean.std or 0.0) / math.sqrt(mean.count)
        found[f"ci95_low/val/{name}"] = mean.low or 0.0
        found[f"ci95_high/val/{name}"] = mean.high or 0.0
    return found


def points_of(values: Mapping[str, float | None], *, step: int, time: int) -> Iterator[Point]:
    """Yields the points of all values that are numbers: MLflow would draw infinity as 1.8e308."""
    for name, value in values.items():
        if value is not None and math.isfinite(value):
            yield Point(legal_key(name), rounded(value), step, time)


def rounded(value: float) -> float:
    """Returns a number with as many significant digits as are shown."""
    return float(f"{value:.{DIGITS}g}")


@functools.lru_cache(maxsize=4096)
def legal_key(name: str) -> str:
    """Returns the name as MLflow accepts it for a metric, a param or a tag."""
    parts = re.sub(r"[^A-Za-z0-9_\-. :/]", "_", name)[:KEY_LENGTH].split("/")
    return "/".join(part for part in parts if part.strip(".")) or "_"


def milliseconds(seconds: float) -> int:
    """Returns a time as MLflow counts it."""
    return round(seconds * 1000)

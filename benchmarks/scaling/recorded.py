"""Recorded fold trainings as a stand-in for real ones: any knobs have scores and seconds."""

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path

from hsearch.results import EpochRecord, FoldResult, metric_names
from hsearch.search.domain import Interval
from hsearch.search.space import SearchSpace
from hsearch.seeds import rng_for
from hsearch.spec import FoldJob, KnobValue

EPOCHS = 10
METRICS = metric_names(3)
NOISE = 0.01  # of a score under another seed, as a share of it


class Recorded:
    """Scores and seconds of any knobs: those of the nearest recorded configuration, with noise.

    Args:
        path: A table of `record_folds.py`.
        space: What is searched; a distance is measured in shares of its ranges.
        fold_seconds: What the mean fold takes; recorded seconds are scaled so.
    """

    def __init__(self, path: Path, space: SearchSpace, fold_seconds: float) -> None:
        table = json.loads(path.read_text(encoding="utf-8"))["configurations"]
        self.rows = [row for row in table if None not in row["scores"]]
        self.domains = {knob.name: knob.domain for knob in space.knobs}
        self.places = [self._place(row["knobs"]) for row in self.rows]
        every = [seconds for row in self.rows for seconds in row["seconds"]]
        self.scale = fold_seconds / statistics.fmean(every)
        self.best = max(statistics.fmean(row["scores"]) for row in self.rows)

    def nearest(self, knobs: Mapping[str, KnobValue]) -> int:
        """Returns the number of the recorded configuration that is most like these knobs."""
        here = self._place(knobs)
        return min(range(len(self.rows)), key=lambda n: (_distance(here, self.places[n]), n))

    def seconds(self, row: int, fold: int) -> float:
        """Returns how long a fold takes."""
        return float(self.rows[row]["seconds"][fold]) * self.scale

    def score(self, row: int, number: int, fold: int) -> float:
        """Returns the score of a fold of a trial; the same at every call."""
        noise = float(rng_for(number, "noise", fold).normal(0, NOISE))
        return float(self.rows[row]["scores"][fold]) * (1 + noise)

    def result(self, job: FoldJob, row: int, number: int) -> str:
        """Returns the FoldResult of a job as JSON, as large as a real one."""
        score = self.score(row, number, job.fold)
        metrics = dict.fromkeys(METRICS, score)
        epochs = tuple(
            EpochRecord(
                epoch=epoch,
                loss=1.0 / epoch if epoch else None,
                seconds=self.seconds(row, job.fold) / EPOCHS,
                images_per_second=1000.0 if epoch else None,
                lr={"backbone": 0.01, "head": 0.01, "proxies": 0.03},
                validation=metrics,
            )
            for epoch in range(EPOCHS + 1)
        )
        return FoldResult(
            job=job,
            score=score,
            best_epoch=EPOCHS,
            validation=metrics,
            untrained=metrics,
            history=epochs,
            stopped="epochs",
            versions={},
        ).model_dump_json()

    def _place(self, knobs: Mapping[str, KnobValue]) -> dict[str, float | str]:
        return {
            name: share(domain, knobs[name]) if isinstance(domain, Interval) else str(knobs[name])
            for name, domain in self.domains.items()
            if name in knobs
        }


def share(domain: Interval, value: KnobValue) -> float:
    """Returns how far a value is along its range, from 0 to 1."""
    low, high, at = domain.low, domain.high, float(value)
    if domain.log:
        low, high, at = math.log(low), math.log(high), math.log(at)
    return (at - low) / (high - low)


def _distance(a: Mapping[str, float | str], b: Mapping[str, float | str]) -> float:
    """Squared; words that differ, and knobs that only one has, are a whole range apart."""
    found = 0.0
    for name in a.keys() | b.keys():
        x, y = a.get(name), b.get(name)
        both = isinstance(x, float) and isinstance(y, float)
        found += (x - y) ** 2 if both else float(x != y)  # type: ignore[operator]
    return found

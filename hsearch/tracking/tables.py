"""All metrics of a study as tables, which MLflow shows among the artifacts of the study's run.

They are what the few metrics of that run leave out. The format is that of `mlflow.log_table`.
"""

import json
import math
from collections.abc import Sequence

from hsearch.intervals import Mean, mean_of
from hsearch.results import TestedKind
from hsearch.search.record import TrialRecord
from hsearch.search.reproduced import ReproductionRecord
from hsearch.tracking.points import rounded

FOLDER = "metrics"
VALIDATION = f"{FOLDER}/validation.json"

_STATISTICS = ("mean", "low", "high")


def validation_table(trial: TrialRecord) -> str:
    """Returns all metrics of a complete trial on the validation images.

    Beside their means over the folds stands the floor, where it is recorded, and then every fold.
    """
    results = [trial.folds[fold] for fold in sorted(trial.folds)]
    columns = ["metric", *_STATISTICS, "floor", *(f"fold {fold}" for fold in sorted(trial.folds))]
    rows = []
    for name in results[0].validation:
        values = [result.validation.get(name) for result in results]
        floor = _mean([result.floor.get(name) for result in results])
        rows.append(
            [name, *_statistics(_mean(values)), floor and _cell(floor.mean), *map(_cell, values)]
        )
    return _table(columns, rows)


def _mean(values: Sequence[float | None]) -> Mean | None:
    """Returns the mean, or None where one of them is no number."""
    numbers = [value for value in values if value is not None and math.isfinite(value)]
    return mean_of(numbers) if len(numbers) == len(values) else None


def tested_file(record: ReproductionRecord) -> str:
    """Returns where the table of a reproduction lies among the artifacts."""
    return f"{FOLDER}/test{'-classic' if record.spec.protocol == 'classic' else ''}.json"


def tested_table(record: ReproductionRecord) -> str:
    """Returns all metrics of a reproduction on the test images: their means, and the floor."""
    kinds: tuple[TestedKind, ...] = ("separated", "concatenated")
    means = {kind: found for kind in kinds if (found := record.means(kind))}
    floor = record.floor or {}
    columns = ["metric"]
    columns += [f"{kind} {statistic}" for kind in means for statistic in _STATISTICS]
    names = dict.fromkeys([*(name for found in means.values() for name in found), *floor])
    rows = [
        [
            name,
            *(cell for found in means.values() for cell in _statistics(found.get(name))),
            _cell(floor.get(name)),
        ]
        for name in names
    ]
    return _table([*columns, "floor"], rows)


def _statistics(mean: Mean | None) -> list[float | None]:
    return [_cell(getattr(mean, statistic, None)) for statistic in _STATISTICS]


def _cell(value: float | None) -> float | None:
    return rounded(value) if value is not None and math.isfinite(value) else None


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return json.dumps({"columns": columns, "data": rows})

"""What takes part in a comparison: a study, its reproduction, and what its runs scored by query."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hsearch.errors import ConfigError
from hsearch.evaluation.query_table import (
    FLOOR_NAME,
    QUERIES,
    QueryTable,
    read_query_tables,
)
from hsearch.methods import load_method
from hsearch.report.values import KINDS, Kind
from hsearch.results import Metrics, score_of
from hsearch.search.record import StudyRecord
from hsearch.search.reproduced import ReproductionRecord, run_name
from hsearch.spec import FoldJob


@dataclass(frozen=True, eq=False)
class Entrant:
    """One study in a comparison.

    Attributes:
        study: As recorded.
        reproduction: With at least one complete run.
        queries: Number of a run -> its tables by kind; runs without a file are absent.
        floor: What every query scored without training; None without a file.
    """

    study: StudyRecord
    reproduction: ReproductionRecord
    queries: Mapping[int, Mapping[str, QueryTable]] = field(default_factory=dict)
    floor: QueryTable | None = None

    @property
    def level_names(self) -> tuple[str, ...]:
        """What the levels of its data are called; empty where it has not kept that."""
        return self.reproduction.level_names or self.study.level_names

    def naming(self, level_names: tuple[str, ...]) -> "Entrant":
        """Returns it with other names of the levels, so that all of a leaderboard have the same."""
        return replace(self, study=self.study.model_copy(update={"level_names": level_names}))

    @property
    def job(self) -> FoldJob:
        """What its runs trained, but for seed and fold."""
        return self.reproduction.spec.job

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.job.method.name

    @property
    def task(self) -> Literal["retrieval", "multilabel"]:
        """Of the method."""
        return load_method(self.method).task

    def metrics(self, kind: Kind) -> dict[int, Metrics]:
        """Returns the metrics of its complete runs by seed; none where it lacks that kind."""
        tested = {run.seed: run.tested for run in self.reproduction.complete if run.tested}
        found = {seed: each.metrics(kind) for seed, each in tested.items()}
        return {seed: metrics for seed, metrics in found.items() if metrics is not None}

    def query_tables(self, kind: Kind, metric: str) -> dict[int, QueryTable]:
        """Returns the tables that have the metric, by seed, of its complete runs."""
        runs = {run.seed: self.queries.get(run.number, {}) for run in self.reproduction.complete}
        return {
            seed: tables[kind]
            for seed, tables in runs.items()
            if kind in tables and metric in tables[kind].values
        }


def load_entrant(
    study: StudyRecord, reproduction: ReproductionRecord, folder: Path, metric: str | None = None
) -> Entrant:
    """Returns a study with what its runs scored by query, as far as there are files.

    Args:
        study: As recorded.
        reproduction: As recorded.
        folder: Of the reproduction, with `run-000/queries.npz` and so on, and `floor/queries.npz`.
        metric: The only one that is kept in memory; by default the objective.
    """
    metric = metric or study.spec.job.objective
    queries: dict[int, dict[str, QueryTable]] = {}
    floor = None
    if reproduction.floor and (path := folder / FLOOR_NAME / QUERIES).is_file():
        table = read_query_tables(path).get(FLOOR_NAME)
        if table and _is_of(table, reproduction.floor, metric):
            floor = _only(table, metric)
    for run in reproduction.complete:
        path = folder / run_name(run.number) / QUERIES
        if path.is_file() and run.tested:
            tables = read_query_tables(path)
            queries[run.number] = {
                kind: _only(tables[kind], metric)
                for kind in KINDS
                if kind in tables and _is_of(tables[kind], run.tested.metrics(kind), metric)
            }
    return Entrant(study, reproduction, queries, floor)


def _only(table: QueryTable, metric: str) -> QueryTable:
    return QueryTable(table.rows, {metric: table.values[metric]})


def _is_of(table: QueryTable, metrics: Metrics | None, metric: str) -> bool:
    """Whether a table has the metric, and of the recorded test, not of one before."""
    if metrics is None or metric not in metrics or metric not in table.values:
        return False
    mean = float(np.nanmean(table.values[metric], dtype=np.float64))
    return bool(np.isclose(mean, metrics[metric], rtol=0, atol=1e-5))


def row_names(entrants: Sequence[Entrant]) -> list[str]:
    """Returns the name of each row: the method's, or the study's where methods repeat."""
    counts = Counter(entrant.method for entrant in entrants)
    return [each.study.name if counts[each.method] > 1 else each.method for each in entrants]


@dataclass(frozen=True, eq=False)
class QueryScores:
    """What every query scored, of all that are compared.

    Attributes:
        runs: (M, R, Q) by methods, runs of all seeds and queries; NaN for runs that a method lacks.
        floors: (M, Q) by methods, without training; NaN where that is not known.
    """

    runs: NDArray[np.float32]
    floors: NDArray[np.float32]


def query_scores(entrants: Sequence[Entrant], kind: Kind, metric: str) -> QueryScores | None:
    """Returns the scores of methods, runs and queries, or None if no method has any.

    Queries to which the metric does not apply are left out. A floor of other queries than its
    method's is not used.

    Raises:
        ConfigError: If methods were asked different queries.
    """
    tables = [entrant.query_tables(kind, metric) for entrant in entrants]
    having = [number for number, found in enumerate(tables) if found]
    if not having:
        return None
    seeds = sorted({seed for found in tables for seed in found})
    rows = next(iter(tables[having[0]].values())).rows
    at_0 = score_of({metric: 0.0}, metric)
    slope = score_of({metric: 1.0}, metric) - at_0  # -1 where less is better
    scores = np.full((len(tables), len(seeds), len(rows)), np.nan, np.float32)
    floors = np.full((len(tables), len(rows)), np.nan, np.float32)
    for number in having:
        for seed, table in tables[number].items():
            if not np.array_equal(table.rows, rows):
                one, other = entrants[having[0]].study.name, entrants[number].study.name
                raise ConfigError(
                    f"Methods are compared on the same queries, but those of {one} and {other} "
                    "differ; reproduce one of them again."
                )
            scores[number, seeds.index(seed)] = at_0 + slope * table.values[metric]
        floor = entrants[number].floor
        if floor is not None and metric in floor.values and np.array_equal(floor.rows, rows):
            floors[number] = at_0 + slope * floor.values[metric]
    ran = ~np.isnan(scores).all(axis=2)
    known = ~np.isnan(floors).all(axis=1)
    applies = ~np.isnan(np.concatenate([scores[ran], floors[known]])).any(axis=0)
    return QueryScores(scores[:, :, applies], floors[:, applies]) if applies.any() else None

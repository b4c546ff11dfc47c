"""From studies and their reproductions to leaderboards, one per data set."""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from hsearch.errors import ConfigError, did_you_mean
from hsearch.report.entrant import Entrant, QueryScores, query_scores, row_names
from hsearch.report.fairness import audit
from hsearch.report.statistics import group_letters, paired_bootstrap
from hsearch.report.values import (
    KINDS,
    AgainstFloor,
    Contrast,
    Floor,
    Kind,
    Leaderboard,
    Row,
    Table,
)
from hsearch.report.verdict import against_floors, contrasts, estimate
from hsearch.results import Metrics, score_of
from hsearch.words import FLOORS, metric_title

_BLIND = {
    "retrieval": "Scores query by query are missing ({kind}), so runs alone decide, and the "
    "verdict is about these very queries",
    "multilabel": "Labels are scored over all images at once and not query by query ({kind}), so "
    "runs alone decide, and the verdict is about these very images",
}
"""By task, why methods are not compared on queries."""


def leaderboards(entrants: Sequence[Entrant], metric: str | None = None) -> tuple[Leaderboard, ...]:
    """Returns a leaderboard per data set, in the order of the entrants.

    Args:
        entrants: At least one; each has a complete run.
        metric: What decides; by default the objective of all studies, which must then be the same.

    Raises:
        ConfigError: Where results must not stand in one table.
    """
    _check_runs(entrants)
    metric = metric or _objective(entrants)
    _check_protocols(entrants)
    by_data: dict[str, list[Entrant]] = {}
    for entrant in entrants:
        by_data.setdefault(entrant.job.data_digest, []).append(entrant)
    _check_data([found[0] for found in by_data.values()])
    return tuple(_leaderboard(found, metric) for found in by_data.values())


def _check_runs(entrants: Sequence[Entrant]) -> None:
    names = [entrant.study.name for entrant in entrants]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"Studies are compared once each, but {name} is named twice.")
    for entrant in entrants:
        if not entrant.metrics("separated"):
            name = entrant.study.name
            again = entrant.reproduction.command or f"hsearch reproduce {name}"
            raise ConfigError(
                f"A study is compared by its complete runs, but {name} has none; continue with "
                f"`{again}`."
            )


def _objective(entrants: Sequence[Entrant]) -> str:
    first = entrants[0]
    for other in entrants[1:]:
        if other.job.objective != first.job.objective:
            raise ConfigError(
                f"{first.study.name} was searched for {first.job.objective}, "
                f"{other.study.name} for {other.job.objective}; say with --metric by which of them "
                "to compare."
            )
    tested = next(iter(first.metrics("separated").values()))
    return first.reproduction.spec.objective(tested)


def _check_protocols(entrants: Sequence[Entrant]) -> None:
    first = entrants[0]
    for other in entrants[1:]:
        one, two = first.reproduction.spec.protocol, other.reproduction.spec.protocol
        if one != two:
            raise ConfigError(
                f"Results of different protocols are never compared, but {first.study.name} is "
                f"{one} and {other.study.name} {two}; reproduce both by the same one."
            )


def _check_data(firsts: Sequence[Entrant]) -> None:
    """Refuses two stores with different content and the same name."""
    by_name: dict[str, Entrant] = {}
    for entrant in firsts:
        other = by_name.setdefault(entrant.job.data_name, entrant)
        if other is not entrant:
            raise ConfigError(
                f"Methods are compared on the same images, but {other.study.name} and "
                f"{entrant.study.name} have different stores called {entrant.job.data_name}; "
                "search and reproduce both on the same one."
            )


def _leaderboard(entrants: Sequence[Entrant], metric: str) -> Leaderboard:
    first = entrants[0]
    for other in entrants[1:]:
        if other.job.splits != first.job.splits:
            raise ConfigError(
                f"Results of different splits are never compared, but {first.study.name} has "
                f"{first.job.splits} and {other.study.name} {other.job.splits}; search both with "
                "the same --splits."
            )
    level_names = next((each.level_names for each in entrants if each.level_names), ())
    kinds = [kind for kind in KINDS if all(each.metrics(kind) for each in entrants)]
    tables = tuple(_table(entrants, kind, metric) for kind in kinds)
    return Leaderboard(
        data=first.job.data_name,
        data_digest=first.job.data_digest,
        protocol=first.reproduction.spec.protocol,
        splits=first.job.splits,
        metric=metric,
        level_names=level_names,
        tables=tables,
        audit=audit([each.naming(level_names) for each in entrants], row_names(entrants)),
        notes=_notes(entrants, tables, metric, level_names),
    )


def _table(entrants: Sequence[Entrant], kind: Kind, metric: str) -> Table:
    scored = [
        (entrant, name, _runs(entrant, kind, metric))
        for entrant, name in zip(entrants, row_names(entrants), strict=True)
    ]
    scored.sort(key=lambda each: -statistics.fmean(each[2].values()))
    ordered, names, runs = ([*each] for each in zip(*scored, strict=True))
    floors = _floors(entrants, metric)
    scores = query_scores(ordered, kind, metric)
    by_queries = {} if scores is None else paired_bootstrap(scores.runs, scores.floors)
    pairs = tuple(_without_contradiction(pair) for pair in contrasts(names, runs, by_queries))
    different = [(names.index(p.one), names.index(p.other)) for p in pairs if p.different]
    against = against_floors(
        runs,
        [next((floor for floor in floors if name in floor.rows), None) for name in names],
        by_queries,
        [_why_not_told(n, entrant, scores) for n, entrant in enumerate(ordered)],
    )
    rows = zip(ordered, names, runs, group_letters(len(names), different), against, strict=True)
    return Table(
        kind=kind,
        rows=tuple(_row(*each, kind) for each in rows),
        floors=floors,
        contrasts=pairs,
        queries=scores.runs.shape[2] if scores and by_queries else None,
    )


def _without_contradiction(pair: Contrast) -> Contrast:
    """Takes a verdict back that the order of the table contradicts.

    Rows stand by the means over all their runs, but are tested on the runs that both have.
    """
    behind = pair.difference is not None and pair.difference.mean < 0
    return pair.model_copy(update={"different": pair.different and not behind})


def _runs(entrant: Entrant, kind: Kind, metric: str) -> dict[int, float]:
    """Returns the score of every run by its seed."""
    shared = _shared(entrant, kind)
    if metric not in shared:
        raise ConfigError(
            f"{entrant.study.name} was not tested by '{metric}'; {did_you_mean(metric, shared)}"
        )
    found = sorted(entrant.metrics(kind).items())
    return {seed: score_of(metrics, metric) for seed, metrics in found}


def _shared(entrant: Entrant, kind: Kind) -> list[str]:
    """Returns the metrics that all runs have."""
    first, *others = entrant.metrics(kind).values()
    return [name for name in first if all(name in metrics for metrics in others)]


def _row(
    entrant: Entrant,
    name: str,
    runs: dict[int, float],
    group: str,
    against: AgainstFloor,
    kind: Kind,
) -> Row:
    found = entrant.metrics(kind).values()
    return Row(
        name=name,
        study=entrant.study.name,
        method=entrant.method,
        runs=runs,
        score=estimate(list(runs.values())),
        metrics={each: estimate([m[each] for m in found]) for each in _shared(entrant, kind)},
        group=group,
        against_floor=against,
    )


def _floors(entrants: Sequence[Entrant], metric: str) -> tuple[Floor, ...]:
    """Returns one floor, or several named after their rows where they differ."""
    found: list[tuple[Metrics, list[str]]] = []
    for entrant, name in zip(entrants, row_names(entrants), strict=True):
        floor = entrant.reproduction.floor
        if floor is None or metric not in floor:
            continue
        same = [names for metrics, names in found if _same(metrics, floor)]
        if same:
            same[0].append(name)
        else:
            found.append((floor, [name]))
    called = FLOORS[entrants[0].task].row
    return tuple(
        Floor(
            name=called if len(found) == 1 else f"{called} (of {', '.join(names)})",
            rows=tuple(names),
            score=score_of(metrics, metric),
            metrics=metrics,
        )
        for metrics, names in found
    )


def _why_not_told(number: int, entrant: Entrant, scores: QueryScores | None) -> str | None:
    """Says why a method is not told from its floor; None where the tests may decide.

    Without scores by query of the method itself the runs decide alone, as between methods; but
    where only those of the floor are missing, they can be had.
    """
    if scores is None or np.isnan(scores.runs[number]).all():
        return None
    if not np.isnan(scores.floors[number]).all():
        return None
    again = entrant.reproduction.command or f"hsearch reproduce {entrant.study.name}"
    if entrant.reproduction.floor_queries is None:
        return f"what every query scores without training is not recorded; `{again}` adds it"
    return "the file of what every query scores without training is missing"


def _same(one: dict[str, float], other: dict[str, float]) -> bool:
    """Returns whether two floors agree up to the rounding of another machine."""
    return one.keys() == other.keys() and all(
        np.isclose(one[name], other[name], rtol=0, atol=1e-5) for name in one
    )


def _below_floor(table: Table, floor: str) -> list[str]:
    """Says which methods are no better than no training; `floor` names that in a sentence."""
    floors = {name: floor.score for floor in table.floors for name in floor.rows}
    below = [row.name for row in table.rows if row.score.mean <= floors.get(row.name, -math.inf)]
    if not below:
        return []
    return [
        f"No better than {floor} ({table.kind}): {', '.join(below)}. Train longer, or with other "
        "settings, before you conclude anything."
    ]


def _notes(
    entrants: Sequence[Entrant],
    tables: Sequence[Table],
    metric: str,
    level_names: tuple[str, ...],
) -> tuple[str, ...]:
    notes: list[str] = []
    task = entrants[0].task
    for table in tables:
        blind = [_pair_words(p) for p in table.contrasts if p.runs > 1 and p.p_queries is None]
        against = [(row.name, row.against_floor) for row in table.rows]
        blind += [f"{n} and its floor" for n, a in against if a.p_queries is None and not a.reason]
        if blind:
            notes.append(f"{_BLIND[task].format(kind=table.kind)}: {'; '.join(blind)}.")
        alone = [_pair_words(p) for p in table.contrasts if p.p_runs is None]
        if alone:
            notes.append(
                f"Fewer than two shared seeds ({table.kind}), so they cannot be told apart: "
                f"{'; '.join(alone)}."
            )
        notes += _below_floor(table, FLOORS[task].noun)
        if any(p.runs < len(row.runs) for p in table.contrasts for row in table.rows if p.runs):
            notes.append(
                f"Not all have the same seeds ({table.kind}): means are over all runs of a method, "
                "but what one is behind another, and the tests, over the runs that both have."
            )
    searched = {entrant.job.objective for entrant in entrants}
    if searched != {metric}:
        titles = [metric_title(each, level_names) for each in sorted(searched)]
        notes.append(
            f"The searches maximised {', '.join(titles)}, not {metric_title(metric, level_names)}: "
            "a metric that is chosen after looking at several proves less."
        )
    lacking = [e.study.name for e in entrants if e.reproduction.floor is None]
    if lacking:
        notes.append(f"The floor of {', '.join(lacking)} is not recorded.")
    return tuple(notes)


def _pair_words(pair: Contrast) -> str:
    return f"{pair.one} and {pair.other}"

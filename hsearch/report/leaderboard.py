"""From studies and their reproductions to leaderboards, one per data set."""

import math
from collections.abc import Sequence

import numpy as np

from hsearch.errors import ConfigError, did_you_mean
from hsearch.report.entrant import Entrant, query_scores, row_names
from hsearch.report.fairness import audit
from hsearch.report.statistics import group_letters
from hsearch.report.values import KINDS, Contrast, Floor, Kind, Leaderboard, Row, Table
from hsearch.report.verdict import contrasts, estimate
from hsearch.results import score_of
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
    rows = [
        _row(entrant, name, kind, metric)
        for entrant, name in zip(entrants, row_names(entrants), strict=True)
    ]
    order = sorted(range(len(rows)), key=lambda number: -rows[number].score.mean)
    ordered, names = [rows[n] for n in order], [rows[n].name for n in order]
    queries = query_scores([entrants[n] for n in order], kind, metric)
    found = contrasts(names, [row.runs for row in ordered], queries)
    pairs = tuple(_without_contradiction(pair) for pair in found)
    different = [(names.index(p.one), names.index(p.other)) for p in pairs if p.different]
    letters = group_letters(len(ordered), different)
    return Table(
        kind=kind,
        rows=tuple(
            row.model_copy(update={"group": group})
            for row, group in zip(ordered, letters, strict=True)
        ),
        floors=_floors(entrants, metric),
        contrasts=pairs,
        queries=None if queries is None else queries.shape[2],
    )


def _without_contradiction(pair: Contrast) -> Contrast:
    """Takes a verdict back that the order of the table contradicts.

    Rows stand by the means over all their runs, but are tested on the runs that both have.
    """
    behind = pair.difference is not None and pair.difference.mean < 0
    return pair.model_copy(update={"different": pair.different and not behind})


def _row(entrant: Entrant, name: str, kind: Kind, metric: str) -> Row:
    found = entrant.metrics(kind)
    shared = [each for each in next(iter(found.values())) if all(each in m for m in found.values())]
    if metric not in shared:
        raise ConfigError(
            f"{entrant.study.name} was not tested by '{metric}'; {did_you_mean(metric, shared)}"
        )
    runs = {seed: score_of(metrics, metric) for seed, metrics in sorted(found.items())}
    return Row(
        name=name,
        study=entrant.study.name,
        method=entrant.method,
        runs=runs,
        score=estimate(list(runs.values())),
        metrics={each: estimate([m[each] for m in found.values()]) for each in shared},
        group="",
    )


def _floors(entrants: Sequence[Entrant], metric: str) -> tuple[Floor, ...]:
    """Returns one floor, or several named after their rows where they differ."""
    found: list[tuple[dict[str, float], list[str]]] = []
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
            score=score_of(metrics, metric),
            metrics=metrics,
        )
        for metrics, names in found
    )


def _same(one: dict[str, float], other: dict[str, float]) -> bool:
    """Returns whether two floors agree up to the rounding of another machine."""
    return one.keys() == other.keys() and all(
        np.isclose(one[name], other[name], rtol=0, atol=1e-5) for name in one
    )


def _below_floor(table: Table, floor: str) -> list[str]:
    """Says which methods are no better than no training; `floor` names that in a sentence."""
    highest = max((floor.score for floor in table.floors), default=-math.inf)
    below = [row.name for row in table.rows if row.score.mean <= highest]
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

"""The whole of a comparison: a leaderboard per data set, and ranks over several."""

from collections.abc import Sequence

import numpy as np

from hsearch.report.entrant import Entrant
from hsearch.report.leaderboard import leaderboards
from hsearch.report.ranks import critical_difference, friedman_p, ranks_differ, ranks_of
from hsearch.report.statistics import groups
from hsearch.report.values import KINDS, Comparison, Kind, Leaderboard, RankTable, Table


def compare(entrants: Sequence[Entrant], metric: str | None = None) -> Comparison:
    """Returns everything that is known about which of the studies' methods is best.

    Args:
        entrants: At least one; each has a complete run.
        metric: What decides; by default the objective of all studies.

    Raises:
        ConfigError: Where results must not stand in one table.
    """
    boards = leaderboards(entrants, metric)
    if len(boards) == 1:
        return Comparison(leaderboards=boards)
    twice = _twice(boards)
    if twice:
        return Comparison(leaderboards=boards, notes=(twice,))
    shared = _shared(boards)
    if len(shared) < 2:
        words = "No ranks over the data sets: fewer than two methods were reproduced on all."
        return Comparison(leaderboards=boards, notes=(words,))
    return Comparison(
        leaderboards=boards,
        ranks=tuple(
            _rank_table(boards, kind, shared)
            for kind in KINDS
            if all(_table(board, kind) for board in boards)
        ),
        notes=_left_out(boards, shared),
    )


def _twice(boards: Sequence[Leaderboard]) -> str | None:
    for board in boards:
        methods = [row.method for row in board.tables[0].rows]
        for method in methods:
            if methods.count(method) > 1:
                return (
                    f"No ranks over the data sets: {method} has several studies on {board.data}, "
                    "and a rank needs one of them; leave out the others."
                )
    return None


def _shared(boards: Sequence[Leaderboard]) -> list[str]:
    """Returns the methods that all data sets have, in the order of the first."""
    names = [[row.method for row in board.tables[0].rows] for board in boards]
    return [name for name in names[0] if all(name in found for found in names)]


def _left_out(boards: Sequence[Leaderboard], shared: Sequence[str]) -> tuple[str, ...]:
    found = {row.method for board in boards for row in board.tables[0].rows} - set(shared)
    if not found:
        return ()
    return (f"Not ranked, as some data set lacks them: {', '.join(sorted(found))}.",)


def _table(board: Leaderboard, kind: Kind) -> Table | None:
    return next((table for table in board.tables if table.kind == kind), None)


def _rank_table(boards: Sequence[Leaderboard], kind: Kind, methods: Sequence[str]) -> RankTable:
    tables = [table for board in boards if (table := _table(board, kind))]
    means = [{row.method: row.score.mean for row in table.rows} for table in tables]
    ranks = ranks_of(np.array([[found[name] for name in methods] for found in means]))
    order = np.argsort(ranks.mean(axis=0), kind="stable")
    ranks, names = ranks[:, order], [methods[n] for n in order]
    return RankTable(
        kind=kind,
        data=tuple(board.data for board in boards),
        ranks=dict(zip(names, map(float, ranks.mean(axis=0)), strict=True)),
        friedman_p=friedman_p(ranks),
        critical_difference=critical_difference(*ranks.shape),
        groups=tuple(
            tuple(names[n] for n in group) for group in groups(len(names), ranks_differ(ranks))
        ),
    )

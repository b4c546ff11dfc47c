"""A comparison for programs: one line of CSV per method and metric, or all of it as JSON."""

import csv
import io
import json
from collections.abc import Iterator

from hsearch.report.values import Comparison, Contrast, Leaderboard, Row, Table

CSV_COLUMNS = (
    *("data", "protocol", "splits", "kind", "method", "study", "metric", "mean", "low", "high"),
    *("runs", "decides", "group", "behind", "p_runs", "p_queries"),
    *("better_than_floor", "above_floor", "p_runs_floor", "p_queries_floor"),
)

_Cell = str | int | float | None


def json_text(comparison: Comparison) -> str:
    """Returns everything, indented."""
    return json.dumps(comparison.to_dict(), indent=2) + "\n"


def csv_text(comparison: Comparison) -> str:
    """Returns a line per data set, kind, method and metric; floors have no study and no interval.

    `decides` marks the metric that ranks the table; group, distance to the best and to the floor,
    p-values, and whether a method is better than not training at all stand there alone. Values are
    those of the metric as it is, also where less is better.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for board in comparison.leaderboards:
        for table in board.tables:
            writer.writerows(_lines(board, table))
    return file.getvalue()


def _lines(board: Leaderboard, table: Table) -> Iterator[tuple[_Cell, ...]]:
    where = (board.data, board.protocol, board.splits, table.kind)
    for row in table.rows:
        pair = table.to_best(row)
        for metric, found in row.metrics.items():
            decides = metric == board.metric
            values = (metric, found.mean, found.low, found.high, len(row.runs), int(decides))
            yield (*where, row.name, row.study, *values, *_verdict(row, pair, decides))
    for floor in table.floors:
        for metric, mean in floor.metrics.items():
            decides = metric == board.metric
            yield (*where, floor.name, None, metric, mean, *[None] * 3, int(decides), *[None] * 8)


def _verdict(row: Row, pair: Contrast | None, decides: bool) -> tuple[_Cell, ...]:
    if not decides:
        return (None,) * 8
    floor = row.against_floor
    above = floor.difference.mean if floor.difference else None
    against = (floor.better, above, floor.p_runs, floor.p_queries)
    if pair is None:
        return (row.group, None, None, None, *against)
    behind = pair.difference.mean if pair.difference else None
    return (row.group, behind, pair.p_runs, pair.p_queries, *against)

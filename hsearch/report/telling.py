"""How a comparison is told: the same words and cells on a terminal, on the page and in LaTeX."""

from hsearch.report.values import Estimate, Floor, Leaderboard, RankTable, Row, Table
from hsearch.results import score_title
from hsearch.words import plural

NONE = "-"

KIND_WORDS = {
    "separated": "each network alone, mean over the networks of a run",
    "concatenated": "the networks of a run joined into one",
}

METHOD_WORDS = (
    "Intervals are 95 % by Student's t over runs. p (runs) is a paired t-test over runs of the "
    "same seed; p (queries) a paired bootstrap over queries and runs; both are corrected by Holm "
    "over all pairs of methods. Two methods are told apart only if each test that could be made is "
    "below 5 %; those that share a letter are not. A method beats the floor if it is better than "
    "not training at all, by the same tests of its runs against the floor, corrected by Holm over "
    "the methods. The verdict is about this very test, and about the knobs that one search of each "
    "method has found."
)

FLOOR_TITLE = "Better than not training at all"
"""What the tests against the floor answer."""


def number_words(value: float | None) -> str:
    """Returns four digits behind the point."""
    return NONE if value is None else f"{value:.4f}"


def interval_words(estimate: Estimate) -> str:
    """Returns `0.6912 to 0.7210`, or a dash below two runs."""
    if estimate.low is None:
        return NONE
    return f"{number_words(estimate.low)} to {number_words(estimate.high)}"


def p_words(p: float | None) -> str:
    """Returns a p-value with three digits, `< 0.001` below them."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def board_title(board: Leaderboard) -> str:
    """Returns data set, protocol and splits in a line."""
    return f"{board.data} ({board.protocol} protocol, {board.splits} splits)"


def columns(board: Leaderboard) -> tuple[str, ...]:
    """Returns the heads of a table of rows."""
    score = score_title(board.metric, board.level_names)
    tests = ("behind", "p (runs)", "p (queries)", "group", "beats floor")
    return ("method", score, "95 % CI", "runs", *tests)


def row_cells(table: Table, row: Row) -> tuple[str, ...]:
    """Returns the cells of a method under `columns`."""
    pair = table.to_best(row)
    behind = pair.difference.mean if pair and pair.difference else None
    return (
        row.name,
        number_words(row.score.mean),
        interval_words(row.score),
        str(len(row.runs)),
        number_words(behind),
        p_words(pair.p_runs if pair else None),
        p_words(pair.p_queries if pair else None),
        row.group,
        row.against_floor.better,
    )


def floor_cells(table: Table, floor: Floor) -> tuple[str, ...]:
    """Returns the cells of a floor under `columns`; its tests are those of the best row."""
    found = table.best_against(floor)
    return (
        floor.name,
        number_words(floor.score),
        NONE,
        NONE,
        number_words(found.difference.mean if found and found.difference else None),
        p_words(found.p_runs if found else None),
        p_words(found.p_queries if found else None),
        "",
        "",
    )


def table_cells(table: Table) -> list[tuple[str, ...]]:
    """Returns all cells under `columns`, those of the floors last."""
    floors = [floor_cells(table, floor) for floor in table.floors]
    return [*(row_cells(table, row) for row in table.rows), *floors]


def against_words(table: Table) -> str:
    """Returns which methods are better than not training at all, in a sentence."""
    parts = []
    for answer in ("yes", "no", "cannot be told"):
        rows = [row for row in table.rows if row.against_floor.better == answer]
        for reason in dict.fromkeys(row.against_floor.reason for row in rows):
            names = [row.name for row in rows if row.against_floor.reason == reason]
            why = f" ({reason})" if reason else ""
            parts.append(f"{answer} for {', '.join(names)}{why}")
    return f"{FLOOR_TITLE}: {'; '.join(parts)}."


def verdict_words(table: Table) -> str:
    """Returns who is the best, and who cannot be told from it, in a sentence."""
    best, *others = table.rows
    if not others:
        return f"{best.name} stands alone: {number_words(best.score.mean)}."
    alike = [row.name for row in others if not _told_apart(table, row)]
    if not alike:
        return f"{best.name} is better than {_all_others(others)}."
    if len(alike) == len(others):
        return f"{best.name} leads, but cannot be told apart from {_all_others(others)}."
    return (
        f"{best.name} leads; {', '.join(alike)} cannot be told apart from it, the others are worse."
    )


def _all_others(others: list[Row]) -> str:
    return others[0].name if len(others) == 1 else f"all {len(others)} others"


def _told_apart(table: Table, row: Row) -> bool:
    pair = table.to_best(row)
    return pair is not None and pair.different


def queries_words(table: Table) -> str:
    """Returns what the tests could use."""
    if table.queries is None:
        return "" if len(table.rows) == 1 else "No scores query by query."
    return f"Bootstrap over {table.queries} queries and the shared runs."


def rank_words(table: RankTable) -> str:
    """Returns what the ranks over several data sets say, in two sentences."""
    asked = f"Friedman's test over {plural(len(table.data), 'data set')}: p {_equals(table)}."
    if len(table.groups) == 1:
        return f"{asked} The mean ranks tell no two methods apart."
    return (
        f"{asked} Mean ranks differ where they lie at least {table.critical_difference:.2f} apart "
        "(Nemenyi)."
    )


def _equals(table: RankTable) -> str:
    words = p_words(table.friedman_p)
    return words if words.startswith("<") else f"= {words}"


def metrics_of(table: Table) -> list[str]:
    """Returns the metrics that all rows have, in the order of the first."""
    return [name for name in table.rows[0].metrics if all(name in r.metrics for r in table.rows)]


def spread_words(estimate: Estimate) -> str:
    """Returns `0.7012 +- 0.0101`, the half width of the interval, or the mean alone."""
    if estimate.low is None:
        return number_words(estimate.mean)
    return f"{number_words(estimate.mean)} +- {number_words(estimate.mean - estimate.low)}"

"""The comparison as one HTML page that needs nothing but itself: no network, no script."""

import base64
from collections.abc import Iterable, Iterator
from html import escape

from hsearch.report.html_parts import (
    STYLE,
    html_row,
    html_table,
    interval_picture,
    number_cell,
    text_cell,
)
from hsearch.report.picture import rank_picture
from hsearch.report.telling import (
    FLOOR_TITLE,
    KIND_WORDS,
    METHOD_WORDS,
    against_words,
    board_title,
    columns,
    floor_cells,
    interval_words,
    metrics_of,
    number_words,
    p_words,
    queries_words,
    rank_words,
    row_cells,
    spread_words,
    verdict_words,
)
from hsearch.report.values import Comparison, Finding, Leaderboard, RankTable, Row, Table
from hsearch.words import metric_title


def page_html(comparison: Comparison) -> str:
    """Returns the page.

    Every number of a table carries `data-value`, in full, and `data-path`, where it stands in the
    JSON of the comparison: keys and indices with blanks between.
    """
    parts = [
        *(_board(board, number) for number, board in enumerate(comparison.leaderboards)),
        *(_ranks(table, number) for number, table in enumerate(comparison.ranks)),
        _notes(comparison.notes),
        f'<h2>How to read this</h2>\n<p class="soft">{escape(METHOD_WORDS)}</p>',
    ]
    data = ", ".join(board.data for board in comparison.leaderboards)
    title = escape(f"Comparison on {data}")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _board(board: Leaderboard, number: int) -> str:
    path = f"leaderboards {number}"
    tables = [
        _table(board, table, f"{path} tables {place}") for place, table in enumerate(board.tables)
    ]
    return "\n".join(
        [
            f"<h2>{escape(board_title(board))}</h2>",
            *tables,
            _notes(board.notes),
            _audit(board.audit),
        ]
    )


def _table(board: Leaderboard, table: Table, path: str) -> str:
    heads = [*columns(board), ""]
    rows = [
        html_row(_row(table, row, f"{path} rows {n}", path), "best" if n == 0 else "")
        for n, row in enumerate(table.rows)
    ]
    rows += [
        html_row(_floor(table, n, f"{path} floors {n}", f"{path} rows 0 against_floor"), "floor")
        for n in range(len(table.floors))
    ]
    return "\n".join(
        [
            f"<h3>{table.kind.capitalize()}</h3>",
            f'<p class="verdict">{escape(verdict_words(table))}</p>',
            f'<p class="soft">{escape(KIND_WORDS[table.kind].capitalize())}. '
            f"{escape(queries_words(table))}</p>",
            html_table(heads, rows, words=(0, *range(len(heads) - 3, len(heads)))),
            f'<p class="verdict">{escape(against_words(table))}</p>',
            f"<details><summary>{FLOOR_TITLE}?</summary>{_against_floor(table, path)}</details>",
            f"<details><summary>All metrics</summary>{_metrics(board, table, path)}</details>",
        ]
    )


def _row(table: Table, row: Row, path: str, table_path: str) -> Iterator[str]:
    name, mean, interval, runs, behind, p_runs, p_queries, group, beats = row_cells(table, row)
    pair, score = table.to_best(row), row.score
    place = f"{table_path} contrasts {table.contrasts.index(pair)}" if pair else ""
    gap = pair.difference.mean if pair and pair.difference else None
    yield f'<td title="{escape(row.study)}">{escape(name)}</td>'
    yield number_cell(score.mean, f"{path} score mean", mean)
    yield f'<td class="n">{interval}</td>'
    yield f'<td class="n">{runs}</td>'
    yield number_cell(gap, f"{place} difference mean", behind)
    yield number_cell(pair.p_runs if pair else None, f"{place} p_runs", p_runs)
    yield number_cell(pair.p_queries if pair else None, f"{place} p_queries", p_queries)
    yield text_cell(group)
    yield text_cell(beats)
    yield interval_picture(table, score.mean, score.low, score.high)


def _floor(table: Table, number: int, path: str, best_path: str) -> Iterator[str]:
    floor = table.floors[number]
    name, score, *_, behind, p_runs, p_queries, _, _ = floor_cells(table, floor)
    found = table.best_against(floor)
    gap = found.difference.mean if found and found.difference else None
    yield text_cell(name)
    yield number_cell(floor.score, f"{path} score", score)
    yield from ["<td></td>"] * 2
    yield number_cell(gap, f"{best_path} difference mean", behind)
    yield number_cell(found.p_runs if found else None, f"{best_path} p_runs", p_runs)
    yield number_cell(found.p_queries if found else None, f"{best_path} p_queries", p_queries)
    yield from ["<td></td>"] * 2
    yield interval_picture(table, floor.score, None, None)


def _against_floor(table: Table, path: str) -> str:
    """A row per method: how far it is above its floor, and both tests of that."""
    heads = ["method", "answer", "floor", "above it", "95 % CI", "p (runs)", "p (queries)", "why"]
    rows = []
    for number, row in enumerate(table.rows):
        found, place = row.against_floor, f"{path} rows {number} against_floor"
        gap = found.difference
        above = gap.mean if gap else None
        rows.append(
            html_row(
                [
                    text_cell(row.name),
                    text_cell(found.better),
                    text_cell(found.floor or ""),
                    number_cell(above, f"{place} difference mean", number_words(above)),
                    f'<td class="n">{interval_words(gap) if gap else ""}</td>',
                    number_cell(found.p_runs, f"{place} p_runs", p_words(found.p_runs)),
                    number_cell(found.p_queries, f"{place} p_queries", p_words(found.p_queries)),
                    text_cell(found.reason or ""),
                ]
            )
        )
    return html_table(heads, rows, words=(0, 1, 2, 7))


def _metrics(board: Leaderboard, table: Table, path: str) -> str:
    """A row per metric: there are more of them than methods."""
    rows = [
        html_row(
            [
                text_cell(metric_title(name, board.level_names)),
                *(
                    number_cell(
                        row.metrics[name].mean,
                        f"{path} rows {n} metrics {name} mean",
                        spread_words(row.metrics[name]).replace("+-", "\N{PLUS-MINUS SIGN}"),
                    )
                    for n, row in enumerate(table.rows)
                ),
                *(
                    number_cell(
                        floor.metrics.get(name),
                        f"{path} floors {n} metrics {name}",
                        number_words(floor.metrics.get(name)),
                    )
                    for n, floor in enumerate(table.floors)
                ),
            ]
        )
        for name in metrics_of(table)
    ]
    names = [*(row.name for row in table.rows), *(floor.name for floor in table.floors)]
    return html_table(["metric", *names], rows)


def _notes(notes: Iterable[str]) -> str:
    items = "\n".join(f'<li class="note">{escape(note)}</li>' for note in notes)
    return f"<ul>\n{items}\n</ul>" if items else ""


def _audit(findings: Iterable[Finding]) -> str:
    rows = [
        html_row([text_cell(each.topic), text_cell(each.words)], "same" if each.same else "differs")
        for each in sorted(findings, key=lambda each: each.same)  # differences first
    ]
    return f"<h3>Was it fair?</h3>\n{html_table(['', ''], rows, words=(0, 1))}"


def _ranks(table: RankTable, number: int) -> str:
    picture = base64.b64encode(rank_picture(table, "svg")).decode("ascii")
    path = f"ranks {number} ranks"
    rows = [
        html_row([text_cell(name), number_cell(rank, f"{path} {name}", f"{rank:.2f}")])
        for name, rank in table.ranks.items()
    ]
    return "\n".join(
        [
            f"<h2>Over {escape(', '.join(table.data))} ({table.kind})</h2>",
            f'<p class="verdict">{escape(rank_words(table))}</p>',
            f'<img alt="Mean ranks; bars join methods that cannot be told apart" '
            f'src="data:image/svg+xml;base64,{picture}">',
            html_table(["method", "mean rank"], rows),
        ]
    )

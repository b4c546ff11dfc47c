"""Pieces of the page: escaped text, tables whose numbers say where in the JSON they stand."""

from collections.abc import Collection, Iterable, Sequence
from html import escape

from hsearch.report.values import Table

STYLE = """
:root { color-scheme: light dark; --line: #d5d9de; --soft: #5c6773; --mark: #1f6f8b;
  --good: #e6f2ea; --warn: #fdf1dc; }
@media (prefers-color-scheme: dark) { :root { --line: #3a424b; --soft: #9aa5b1; --mark: #6cc0dd;
  --good: #1d3226; --warn: #3b2f17; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.3rem; margin-top: 2.5rem; }
h3 { font-size: 1.05rem; margin: 2rem 0 0.3rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.7rem; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
th.n, td.n { text-align: right; white-space: nowrap; }
tr.best td { font-weight: 600; } tr.floor td { color: var(--soft); font-style: italic; }
details { margin: 0.8rem 0; } summary { cursor: pointer; color: var(--mark); }
.verdict { border-left: 4px solid var(--mark); padding-left: 0.8rem; }
.soft { color: var(--soft); font-size: 0.9rem; } li.note { background: var(--warn); }
tr.same td:first-child { background: var(--good); }
tr.differs td:first-child { background: var(--warn); }
svg.interval { color: var(--mark); } img { max-width: 100%; background: white; }
"""


def text_cell(text: str) -> str:
    """Returns a cell of escaped text."""
    return f"<td>{escape(text)}</td>"


def number_cell(value: float | None, path: str, shown: str) -> str:
    """Returns a cell of a number.

    Args:
        value: In full, for programs; None gives an empty cell.
        path: Where it stands in the JSON, parts with blanks between.
        shown: For people.
    """
    if value is None:
        return '<td class="n"></td>'
    return f'<td class="n" data-path="{escape(path)}" data-value="{value!r}">{escape(shown)}</td>'


def html_table(heads: Sequence[str], rows: Iterable[str], words: Collection[int] = (0,)) -> str:
    """Returns a table of rows that are ready.

    Args:
        heads: Of the columns.
        rows: See `html_row`.
        words: Which columns hold words; the others hold numbers, and their heads stand right.
    """
    head = "".join(
        f"<th>{escape(each)}</th>" if number in words else f'<th class="n">{escape(each)}</th>'
        for number, each in enumerate(heads)
    )
    body = "\n".join(rows)
    return (
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def html_row(cells: Iterable[str], kind: str = "") -> str:
    """Returns a row of cells that are ready."""
    return f'<tr class="{kind}">{"".join(cells)}</tr>' if kind else f"<tr>{''.join(cells)}</tr>"


def interval_picture(table: Table, mean: float, low: float | None, high: float | None) -> str:
    """Returns a cell with a dot at the mean and a line over the interval, on the table's scale."""
    ends = [floor.score for floor in table.floors]
    for row in table.rows:
        ends += [row.score.mean, *(x for x in (row.score.low, row.score.high) if x is not None)]
    least, width = min(ends), (max(ends) - min(ends)) or 1.0

    def at(value: float) -> float:
        return round(6 + 148 * (value - least) / width, 1)

    line = ""
    if low is not None and high is not None:
        line = (
            f'<line x1="{at(low)}" x2="{at(high)}" y1="9" y2="9" stroke="currentColor" '
            'stroke-width="2"/>'
        )
    return (
        '<td><svg class="interval" width="160" height="18" aria-hidden="true">'
        f'{line}<circle cx="{at(mean)}" cy="9" r="4" fill="currentColor"/></svg></td>'
    )

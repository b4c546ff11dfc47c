"""Tables for people: drawn by rich on a terminal, plain aligned text when piped."""

import sys
from collections.abc import Sequence

import click

_NEVER_WRAPPED = 16  # characters, such as `0.1442 +- 0.0252`


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None
) -> None:
    """Prints a table with one line per row; on a terminal, long texts may wrap, numbers do not."""
    if title is not None:
        click.echo(title)
    if not sys.stdout.isatty():
        click.echo("\n".join(plain_lines(columns, rows)))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        cells = [row[number] for row in rows]
        short = max(map(len, cells), default=0) <= _NEVER_WRAPPED
        table.add_column(column, overflow="fold", no_wrap=number == 0 or short)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def plain_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table, columns aligned to the left and two blanks apart."""
    table = [[column.upper() for column in columns], *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]

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
    least = 0
    for number, column in enumerate(columns):
        widest = max((len(row[number]) for row in rows), default=0)
        whole = number == 0 or widest <= _NEVER_WRAPPED
        table.add_column(column, overflow="fold", no_wrap=whole)
        least += (max(widest, len(column)) if whole else _NEVER_WRAPPED) + 2
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    # On a terminal that is too narrow the lines break; cut off, a number would be another one.
    console = Console()
    console.print(table, width=max(console.width, least), crop=False, soft_wrap=True)


def plain_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table, columns aligned to the left and two blanks apart."""
    table = [[column.upper() for column in columns], *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]


def megabytes(num_bytes: int) -> str:
    """Returns a size in words."""
    return f"{num_bytes / 1e6:.1f} MB"


def tell_recipe(why: str, notes: Sequence[str], warnings: Sequence[str]) -> None:
    """Prints which recipe is used and what of it is left out; warnings go to stderr."""
    click.echo("\n".join((why, *notes)))
    for warning in warnings:
        click.echo(f"hsearch: warning: {warning}", err=True)

"""`hsearch compare`: reproduced studies side by side, with the tests that say who is better."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hsearch.cli.options import NO_TRACKING, out_option, storage_option, tracking_option
from hsearch.cli.output import print_table

if TYPE_CHECKING:
    from hsearch.addresses import Place
    from hsearch.report.entrant import Entrant
    from hsearch.report.values import Comparison, Leaderboard, Table
    from hsearch.search.reproduced import Protocol, ReproductionRecord


@click.command()
@click.argument("studies", nargs=-1, required=True, metavar="STUDY...")
@click.option(
    "--protocol",
    type=click.Choice(["cross-validated", "classic"]),
    help="Whose results; by default the one that all studies have.",
)
@click.option(
    "--metric",
    help="What decides on the test images; by default the objective of the searches.",
)
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write compare.html, .tex, .csv and .json there, and the page to MLflow as well.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@out_option("Folder of the reproductions, with the scores query by query, or its address.")
@storage_option
@tracking_option
def compare(
    studies: tuple[str, ...],
    protocol: "Protocol | None",
    metric: str | None,
    folder: Path | None,
    as_json: bool,
    out: "Place",
    storage: str,
    tracking_uri: str,
) -> None:
    """Compare reproduced studies: who is best, and was it fair.

    Studies of one data set make one leaderboard; over several data sets methods are ranked as
    well. Two methods count as different only if it shows over runs and over queries.
    """
    from hsearch.report.comparison import compare as compared
    from hsearch.report.listing import json_text
    from hsearch.tracking.address import checked_uri

    if tracking_uri != NO_TRACKING:
        checked_uri(tracking_uri)
    entrants = _entrants(studies, protocol, metric, out, storage)
    comparison = compared(entrants, metric)
    if folder is not None:
        _write(comparison, folder)
        if tracking_uri != NO_TRACKING:
            _log(entrants, folder / "compare.html", tracking_uri)
    if as_json:
        click.echo(json_text(comparison), nl=False)
        return
    _show(comparison)
    if folder is not None:
        click.echo(f"\nWritten: {folder}/compare.html, .tex, .csv and .json")


def _entrants(
    studies: Sequence[str],
    protocol: "Protocol | None",
    metric: str | None,
    out: "Place",
    storage: str,
) -> "list[Entrant]":
    from hsearch.cli.studies import read_record
    from hsearch.data.places import local_copy
    from hsearch.evaluation.query_table import QUERIES
    from hsearch.report.entrant import load_entrant
    from hsearch.search.reproduced import PROTOCOLS, runs_folder
    from hsearch.search.reproduction import load_reproduction

    records = [read_record(name, storage) for name in studies]
    asked = (protocol,) if protocol else PROTOCOLS
    found = {
        each: [load_reproduction(record.name, each, storage) for record in records]
        for each in asked
    }
    chosen = _chosen(studies, found)
    entrants = []
    for record, reproduction in zip(records, found[chosen], strict=True):
        assert reproduction is not None
        place = runs_folder(out, reproduction.spec)
        with local_copy(place, f"*/{QUERIES}") as folder:
            entrants.append(load_entrant(record, reproduction, folder, metric))
    return entrants


def _chosen(
    studies: Sequence[str], found: "dict[Protocol, list[ReproductionRecord | None]]"
) -> "Protocol":
    """Returns the first protocol by which all studies are reproduced."""
    from hsearch.errors import ConfigError
    from hsearch.search.reproduced import PROTOCOLS

    for protocol, records in found.items():
        if all(record is not None for record in records):
            return protocol
    for number, name in enumerate(studies):
        if all(records[number] is None for records in found.values()):
            given = f" --protocol {next(iter(found))}" if len(found) == 1 else ""
            others = [record for records in found.values() for record in records if record]
            like = f", as others were by `{others[0].command}`" if others else ""
            raise ConfigError(
                f"Studies are compared on the test images, but {name} is not reproduced yet; run "
                f"`hsearch reproduce {name}{given}`{like}."
            )
    first, second = PROTOCOLS
    only = next(name for name, record in zip(studies, found[first], strict=True) if not record)
    raise ConfigError(
        f"Results of different protocols are never compared, but {only} is reproduced by the "
        f"{second} protocol only; run `hsearch reproduce {only} --protocol {first}`."
    )


def _write(comparison: "Comparison", folder: Path) -> None:
    from hsearch.files import write_whole
    from hsearch.report.latex import latex
    from hsearch.report.listing import csv_text, json_text
    from hsearch.report.page import page_html

    texts = {"html": page_html, "tex": latex, "csv": csv_text, "json": json_text}
    for suffix, text in texts.items():
        write_whole(folder / f"compare.{suffix}", text(comparison).encode())


def _log(entrants: "list[Entrant]", page: Path, uri: str) -> None:
    """Puts the page into the run of every compared study in MLflow."""
    from hsearch.tracking.address import checked_uri
    from hsearch.tracking.files import log_files

    studies = [entrant.study for entrant in entrants]
    if trouble := log_files(checked_uri(uri), studies, "compare", [page]):
        click.echo(f"hsearch: warning: {trouble}", err=True)


def _show(comparison: "Comparison") -> None:
    from hsearch.report.telling import METHOD_WORDS, rank_words

    for board in comparison.leaderboards:
        _show_board(board)
    for table in comparison.ranks:
        rows = [(name, f"{rank:.2f}") for name, rank in table.ranks.items()]
        title = f"\nOver {', '.join(table.data)}, {table.kind}: {rank_words(table)}"
        print_table(("method", "mean rank"), rows, title=title)
    for note in comparison.notes:
        click.echo(f"\n{note}")
    click.echo(f"\n{METHOD_WORDS}")


def _show_board(board: "Leaderboard") -> None:
    from hsearch.report.telling import board_title

    click.echo(board_title(board))
    for table in board.tables:
        _show_table(board, table)
    same = [finding.topic for finding in board.audit if finding.same]
    click.echo(f"\nThe same for all: {', '.join(same)}.")
    for finding in board.audit:
        if not finding.same:
            click.echo(f"Different ({finding.topic}): {finding.words}")
    for note in board.notes:
        click.echo(note)


def _show_table(board: "Leaderboard", table: "Table") -> None:
    from hsearch.report.telling import (
        against_words,
        columns,
        queries_words,
        table_cells,
        verdict_words,
    )

    title = f"\n{table.kind.capitalize()}: {verdict_words(table)} {queries_words(table)}".rstrip()
    print_table(columns(board), table_cells(table), title=title)
    click.echo(against_words(table))

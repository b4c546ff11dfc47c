"""What a person sees of a preparation: what was found, and the file that lists it."""

import csv
from pathlib import Path

import click

from hsearch.cli.output import print_table
from hsearch.data.records import Report

EXAMPLES = 3
"""How many places a table shows per reason, and how many names of a group of identical images."""


def print_found(report: Report) -> None:
    """Prints what the source noted, and a few places of everything that was found."""
    for note in report.notes:
        click.echo(note)
    rows = [
        (reason, str(len(places)), ", ".join(places[:EXAMPLES]))
        for reason, places in _found(report, most=EXAMPLES).items()
    ]
    if rows:
        print_table(("reason", "count", "such as"), rows, title="Found:")


def write_found(path: Path, report: Report) -> None:
    """Writes all places of everything that was found as a CSV: reason, where."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("reason", "where"))
        for reason, places in _found(report).items():
            writer.writerows((reason, place) for place in places)


def _found(report: Report, most: int | None = None) -> dict[str, list[str]]:
    """Where what was found; of groups, at most so many names."""
    conflicts = set(report.conflicts)
    same = [group for group in report.duplicates if group not in conflicts]
    identical = {
        "identical images with different labels (kept)": report.conflicts,
        "identical images (kept)": same,
    }
    kept = {
        reason: [_joined(group, most) for group in groups] for reason, groups in identical.items()
    }
    kept["class with a single image (kept)"] = list(report.singles)
    return report.by_reason() | {reason: places for reason, places in kept.items() if places}


def _joined(group: tuple[str, ...], most: int | None) -> str:
    shown = group[:most]
    more = len(group) - len(shown)
    return " = ".join([*shown, *([f"{more} more"] if more else [])])

"""What is said at the end of a search: its result, and what can be done with it."""

import shlex
from typing import TYPE_CHECKING

import click

from hsearch.cli.options import NO_TRACKING, STORAGE

if TYPE_CHECKING:
    from hsearch.search.record import StudyRecord


def final_words(record: "StudyRecord", storage: str, tracking_uri: str) -> None:
    """Prints the result and what can be done with it, in commands that can be pasted."""
    from hsearch.cli.study_words import print_result
    from hsearch.search.storage import holds_secret, storage_url

    click.echo()
    print_result(record)
    url = storage_url(storage)
    where = storage_words(storage)
    if secret := holds_secret(url):
        shown = f'"{url.drivername}://${{HSEARCH_STORAGE#*://}}"'
    else:
        shown = shlex.quote(url.render_as_string())
    name = shlex.quote(record.name)
    lines = [
        ("All trials", f"hsearch studies {name}{where}"),
        ("Record", f"optuna-dashboard {shown}"),
    ]
    if record.best is not None:
        lines.insert(0, ("Train it again", f"hsearch train --like {name}/best{where}"))
        lines.insert(0, ("Test it", f"hsearch reproduce {name}{where}"))
    if tracking_uri != NO_TRACKING:
        from hsearch.tracking.pages import where_to_look

        lines += where_to_look(tracking_uri, record.name).items()
    click.echo()
    for what, command in lines:
        click.echo(f"{what + ':':<16}{command}")
    if secret:
        click.echo(
            "These commands need HSEARCH_STORAGE to hold the storage's URL, which has a password "
            "and is not printed."
        )


def storage_words(storage: str) -> str:
    """Returns what a command needs to find the storage: nothing by default or with a password."""
    from hsearch.search.storage import holds_secret, storage_url

    url = storage_url(storage)
    if storage == STORAGE or holds_secret(url):
        return ""
    return f" --storage {shlex.quote(url.render_as_string())}"

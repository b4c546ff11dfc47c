"""`hsearch clean`: what hsearch takes on the disk, and removing what is named."""

import json
from typing import TYPE_CHECKING

import click

from hsearch.cli.options import NO_TRACKING, out_option, storage_option, tracking_option
from hsearch.cli.output import print_table
from hsearch.words import size_words

if TYPE_CHECKING:
    from hsearch.addresses import Place
    from hsearch.api.clean import Item, Usage

_COLUMNS = ("name", "size", "frees", "what it is", "what you lose by removing it")


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Say what would be freed, and remove nothing.")
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@out_option("Folder of the studies' files, or its address.")
@storage_option
@tracking_option
def clean(
    names: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
    out: "Place",
    storage: str,
    tracking_uri: str,
) -> None:
    """Show what takes space, or remove what is named.

    \b
      hsearch clean                  what there is, how large, and what removing it would cost
      hsearch clean caches           pixels, features, copies: all that comes again by itself
      hsearch clean pixels features  some of them
      hsearch clean study:NAME       the networks of a study; its record and scores stay
      hsearch clean record:NAME      the record of a study as well

    What is in use is not removed, nor what a stopped search needs to go on. `studies` and `runs`
    name all studies and all runs of `hsearch train` at once, but those that are in use.
    """  # noqa: D301 (click wants the backspace itself)
    from hsearch.api.clean import Where, chosen, usage
    from hsearch.api.clean import clean as remove
    from hsearch.tracking.address import checked_uri

    if as_json and names and not (yes or dry_run):
        raise click.UsageError("Nobody is asked with --json; add --yes or --dry-run.")
    uri = None if tracking_uri == NO_TRACKING else checked_uri(tracking_uri)
    where = Where(out, storage, uri)
    found = usage(where)
    if not names:
        click.echo(json.dumps(_found_json(found), indent=2)) if as_json else _show(found)
        return
    items, left = chosen(found, names, where)
    if not as_json:
        _show_chosen(items, left)
    if dry_run:
        _tell(items, left, _would_free(items), as_json=as_json, done=False)
    elif items and (yes or _agreed(items)):
        _tell(items, left, remove(items), as_json=as_json, done=True)
    elif as_json:
        _tell([], left, 0, as_json=True, done=True)
    else:
        click.echo("Nothing was removed.")


def _show(found: "Usage") -> None:
    from hsearch.disk import total_bytes

    rows = [_row(item) for item in found.items]
    if found.record_files:
        size = size_words(total_bytes(found.record_files))
        lost = "all that the study has found, and its networks"
        rows.append(("record:NAME", size, "-", f"records of studies: {_listed(found)}", lost))
    if not rows:
        click.echo("Nothing of hsearch is here: no caches, no data, no studies, no MLflow.")
        return
    print_table(_COLUMNS, rows)
    caches = [item for item in found.items if item.is_cache]
    click.echo(f"\n{size_words(found.num_bytes)} in all.")
    if found.shared_bytes:
        shared = size_words(found.shared_bytes)
        click.echo(f"{shared} are networks of studies that MLflow has too, freed when both go.")
    if caches:
        free = size_words(_would_free(caches))
        click.echo(f"`hsearch clean caches` would free {free}, all of which comes again by itself.")
    click.echo("Remove what you name: hsearch clean NAME ...")


def _listed(found: "Usage") -> str:
    return ", ".join(found.records) or "none yet"


def _row(item: "Item") -> tuple[str, ...]:
    used = f" (used by {item.in_use})" if item.in_use else ""
    free = size_words(_would_free([item]))
    return item.name, size_words(item.num_bytes), free, item.about + used, item.lost


def _show_chosen(items: "list[Item]", left: "list[Item]") -> None:
    if items:
        print_table(_COLUMNS, [_row(item) for item in items])
    for item in left:
        click.echo(f"{item.name} stays, because it is used by {item.in_use}.")


def _would_free(items: "list[Item]") -> int:
    from hsearch.disk import freed_bytes

    return freed_bytes(file for item in items for file in item.files)


def _agreed(items: "list[Item]") -> bool:
    """Asks; without anybody to answer, that is an error."""
    question = f"Remove {'it' if len(items) == 1 else 'these'}, {size_words(_would_free(items))}?"
    try:
        return click.confirm(question)
    except click.Abort:
        raise click.UsageError(
            "Before something is removed a person is asked, but nobody answers; add --yes."
        ) from None


def _tell(
    items: "list[Item]", left: "list[Item]", num_bytes: int, *, as_json: bool, done: bool
) -> None:
    if as_json:
        told = {
            "removed" if done else "would_remove": [item.name for item in items],
            "freed_bytes" if done else "would_free_bytes": num_bytes,
            "left": [{"name": item.name, "in_use_by": item.in_use} for item in left],
        }
        click.echo(json.dumps(told, indent=2))
        return
    names = ", ".join(item.name for item in items) or "nothing"
    if done:
        click.echo(f"Removed {names}: {size_words(num_bytes)} freed.")
    else:
        click.echo(f"Would remove {names} and free {size_words(num_bytes)}; nothing was removed.")


def _found_json(found: "Usage") -> dict[str, object]:
    from hsearch.disk import total_bytes

    return {
        "bytes": found.num_bytes,
        "shared_bytes": found.shared_bytes,
        "items": [
            {
                "name": item.name,
                "bytes": item.num_bytes,
                "frees_bytes": _would_free([item]),
                "files": len(item.files),
                "place": str(item.place),
                "what": item.about,
                "lost": item.lost,
                "in_use_by": item.in_use,
                "is_cache": item.is_cache,
            }
            for item in found.items
        ],
        "records": {"bytes": total_bytes(found.record_files), "studies": list(found.records)},
    }

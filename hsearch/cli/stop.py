"""`hsearch stop`: end a search from anywhere; its own command continues it."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from hsearch.cli.options import storage_option

if TYPE_CHECKING:
    from hsearch.search.reproduced import Protocol
    from hsearch.search.stopping import Stop


@click.command()
@click.argument("names", metavar="STUDY...", nargs=-1, required=True)
@storage_option
def stop(names: tuple[str, ...], storage: str) -> None:
    """Stop searches and reproductions, from anywhere; they can go on.

    Works from every machine that reaches the storage. Folds in training end after the epoch that
    they are in, and the same command that began the study continues it.
    """
    from hsearch.errors import ClusterError
    from hsearch.search.stopping import driven

    with ExitStack() as stack:
        names = tuple(dict.fromkeys(names))
        found = {name: stack.enter_context(driven(name, storage)) for name in names}
        for each in [each for stops in found.values() for each in stops]:
            each.ask()
            click.echo(f"Waiting for {each.driver} to let go of {each.study.name}.", err=True)
        busy = []
        for name, stops in found.items():
            if not stops:
                click.echo(f"Nobody drives {name}: {_kept(name, None, storage)}.")
            busy += [each.study.name for each in stops if not _told(each, name, storage)]
    if busy:
        raise ClusterError(
            f"A driver lets go after the epochs that it is in, but {', '.join(busy)} is still "
            "being driven; where epochs are long, look again later with `hsearch studies`, else "
            "end its process."
        )


def _told(stop: "Stop", name: str, storage: str) -> bool:
    """Waits for a driver and says what became of it; returns whether it has let go."""
    how = stop.wait()
    if how == "busy":
        return False
    ended = "Stopped" if how == "stopped" else f"{stop.driver} was dead already;"
    click.echo(f"{ended} {stop.study.name}: {_kept(name, stop.protocol, storage)}.")
    return True


def _kept(name: str, protocol: "Protocol | None", storage: str) -> str:
    """Says what is recorded of a study or of its reproduction, and how to go on."""
    from hsearch.cli.last_words import storage_words
    from hsearch.errors import ConfigError

    try:
        kept, command = _record(name, protocol, storage)
    except ConfigError:  # a search that had no trial leaves no study
        return "nothing is recorded"
    again = f"`{command}{storage_words(storage)}`" if command else "its own command again"
    return f"the record keeps {kept}; to go on, run {again}"


def _record(name: str, protocol: "Protocol | None", storage: str) -> tuple[str, str | None]:
    """Returns what is kept, and the command that goes on with it."""
    if protocol is None:
        from hsearch.cli.studies import read_record
        from hsearch.cli.study_words import kept_words

        record = read_record(name, storage)
        return kept_words(record), record.command
    from hsearch.cli.reproducing import so_far
    from hsearch.search.reproduction import load_reproduction

    found = load_reproduction(name, protocol, storage)
    return (so_far(found), found.command) if found else ("nothing", None)

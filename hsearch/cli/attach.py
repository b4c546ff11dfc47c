"""`hsearch attach`: watch a search that runs elsewhere."""

import time
from contextlib import closing
from typing import TYPE_CHECKING

import click

from hsearch.cli.options import NO_TRACKING, storage_option
from hsearch.words import plural

if TYPE_CHECKING:
    from hsearch.search.driver import Driver
    from hsearch.search.onlooker import Driven, Onlooker
    from hsearch.search.record import StudyRecord
    from hsearch.search.study import Study

LOOK_SECONDS = 2.0
_pause = time.sleep


@click.command()
@click.argument("name", metavar="STUDY")
@storage_option
def attach(name: str, storage: str) -> None:
    """Watch a running search, from anywhere; Ctrl-C leaves it alone.

    Works from every machine that reaches the storage, and ends with the search.
    """
    from hsearch.search.lease import Pulse, read_driver
    from hsearch.search.onlooker import Onlooker
    from hsearch.search.study import Study

    with closing(Study.load(name, storage)) as study:
        driver = read_driver(study)
        if driver is None or not Pulse().beats(driver):
            _tell_idle(study, driver, storage)
            return
        onlooker = Onlooker(study, driver)
        try:
            ended = _follow(onlooker)
        except KeyboardInterrupt:
            return
        _tell_end(onlooker, ended, storage)


def _follow(onlooker: "Onlooker") -> "Driven":
    """Shows the search until its driver has let go or is dead."""
    from hsearch.cli.searching import AttachedProgress

    with AttachedProgress(onlooker.record, onlooker.goal, str(onlooker.driver)) as progress:
        while (found := onlooker.look(progress)) == "driven":
            progress.total = onlooker.goal
            _pause(LOOK_SECONDS)
    return found


def _tell_end(onlooker: "Onlooker", ended: "Driven", storage: str) -> None:
    """Says why a search is no longer driven, with its result where it is over."""
    from hsearch.cli.last_words import final_words
    from hsearch.cli.study_words import stopped_words
    from hsearch.errors import ClusterError

    record = onlooker.record
    name, go_on = record.name, _go_on(record, storage)
    if record.is_over(onlooker.goal):
        final_words(record, storage, NO_TRACKING)
    elif ended == "dead":
        raise ClusterError(f"The driver of {name}, {onlooker.driver}, has died. {go_on}")
    elif (request := onlooker.stopped_by()) is not None:
        click.echo(stopped_words(record, request.host))
    else:
        raise ClusterError(f"{onlooker.driver} has let go of {name} before its end. {go_on}")


def _tell_idle(study: "Study", driver: "Driver | None", storage: str) -> None:
    """Shows a study that nobody drives, and how to continue it."""
    from hsearch.cli.last_words import final_words

    record = study.record()
    trials = plural(len(record.trials), "trial")
    died = "" if driver is None else f"; {driver} has died"
    click.echo(f"Nobody drives {record.name}, which has {trials}{died}. {_go_on(record, storage)}")
    final_words(record, storage, NO_TRACKING)


def _go_on(record: "StudyRecord", storage: str) -> str:
    from hsearch.cli.last_words import storage_words

    again = f"`{record.command}{storage_words(storage)}`"
    command = again if record.command else "its own command again"
    return f"To go on, run {command}; more trials with a larger `--trials`."

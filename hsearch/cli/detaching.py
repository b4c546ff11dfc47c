"""`hsearch tune --detach`: the same search as a Ray job that goes on when its user has left."""

import os
import secrets
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from hsearch.cli.command import words_of
from hsearch.cli.last_words import storage_words
from hsearch.cli.options import NO_TRACKING

if TYPE_CHECKING:
    from hsearch.cluster.submission import RayJob
    from hsearch.search.domain import StartPoint
    from hsearch.search.plan import StudyPlan
    from hsearch.search.study import Study

LOOK_SECONDS = 1.0
START_SECONDS = 300.0
"""How long a job may take until its driver is at work; afterwards nobody waits for it."""

_PLACES = {"storage": "HSEARCH_STORAGE", "tracking_uri": "MLFLOW_TRACKING_URI"}
_FOLDERS = ("HSEARCH_DATA", "HSEARCH_SHARED", "HSEARCH_WEIGHTS")


def detach_search(
    ctx: click.Context, plan: "StudyPlan", name: str, earlier: "Sequence[StartPoint]" = ()
) -> None:
    """Submits the command of a context, and waits until its driver is at work.

    Args:
        ctx: Of `tune`; its parameters have been checked.
        plan: That follows from them.
        name: Of the study.
        earlier: Start points of another study.
    """
    from hsearch.search.lease import Lease
    from hsearch.search.study import Study

    _check_secrets(ctx)
    # The study is made here, so that no two processes make its storage at once.
    storage = ctx.params["storage"]
    with closing(Study.open(name, storage, plan.spec, plan.space, earlier)) as study:
        try:
            Lease(study, waiting=click.echo).check_free()
            _wait(_submitted(ctx, plan, name), study, _ways(name, storage))
        except Exception:
            study.remove_if_unused()
            raise


def _submitted(ctx: click.Context, plan: "StudyPlan", name: str) -> "RayJob":
    from hsearch.cluster.submission import submit

    job = submit(
        ctx.params["address"] or "auto",
        f"hsearch-{name}-{secrets.token_hex(4)}",
        words_of(ctx, instead=_instead(ctx, plan, name)),
        _settings(),
        [_PLACES[place] for place in _kept_back(ctx)],
    )
    click.echo(f"Submitted {name} as Ray job {job.id}; waiting for its driver.")
    return job


def _wait(job: "RayJob", study: "Study", ways: str) -> None:
    """Waits until the job holds the study's lease; raises Exit if it has ended before."""
    deadline = time.monotonic() + START_SECONDS
    try:
        while time.monotonic() < deadline:
            if _drives(job, study):
                click.echo(f"The search is at work, and this terminal is free.\n{ways}")
                return
            if (ending := job.ending()) is not None:
                click.echo(f"The job has ended ({ending}). It said last:\n{job.last_lines()}")
                raise click.exceptions.Exit(0 if ending == "SUCCEEDED" else 1)
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        click.echo(f"The job goes on.\n{ways}")
        raise
    click.echo(
        f"The job is still starting after {START_SECONDS:.0f} s; `ray job logs {job.id}` tells "
        f"why.\n{ways}"
    )


def _drives(job: "RayJob", study: "Study") -> bool:
    from hsearch.errors import HsearchError
    from hsearch.search.lease import read_driver

    with suppress(HsearchError):  # a storage that does not answer for a while
        driver = read_driver(study)
        return driver is not None and driver.job == job.id
    return False


def _ways(name: str, storage: str) -> str:
    where = storage_words(storage)
    return (
        f"Watch it:       hsearch attach {name}{where}\nStop it:        hsearch stop {name}{where}"
    )


def _check_secrets(ctx: click.Context) -> None:
    """Raises if a password was typed, which Ray's dashboard would show."""
    from hsearch.errors import ConfigError

    for place, variable in _PLACES.items():
        given = ctx.get_parameter_source(place) is ParameterSource.COMMANDLINE
        if given and _holds_secret(ctx.params[place]):
            option = f"--{place.replace('_', '-')}"
            raise ConfigError(
                f"With `--detach` there must be no password in `{option}`, because Ray shows the "
                "commands of its jobs; leave it out (PostgreSQL finds it in ~/.pgpass of the head "
                f"node), or set {variable} for the processes of the cluster and in this shell."
            )


def _kept_back(ctx: click.Context) -> list[str]:
    """The places that the shell names with a password: there the cluster has its own word."""
    return [place for place in _PLACES if _holds_secret(ctx.params[place])]


def _holds_secret(text: str) -> bool:
    from hsearch.search.storage import holds_secret, storage_url

    return "://" in text and holds_secret(storage_url(text))


def _instead(ctx: click.Context, plan: "StudyPlan", name: str) -> dict[str, object]:
    """Returns what the job is given instead of what was typed: everything by absolute paths."""
    from hsearch.tracking.address import checked_uri

    given = ctx.params
    instead: dict[str, object] = {
        "detach": None,
        "address": None,  # Ray tells it to its jobs
        "name": name,
        "out": _absolute(str(given["out"])),
        "space_file": given["space_file"] and _absolute(str(given["space_file"])),
        "data": given["data"] and _absolute_data(given["data"]),
        "recipe": given["recipe"] and _absolute_recipe(given["recipe"]),
        "settings": _absolute_settings(given["settings"], plan.spec.job.training.model.weights),
        "storage": _absolute_storage(given["storage"]),
        "tracking_uri": given["tracking_uri"],
    }
    if given["tracking_uri"] != NO_TRACKING:
        instead["tracking_uri"] = checked_uri(given["tracking_uri"])
    return {**instead, **dict.fromkeys(_kept_back(ctx))}


def _absolute(text: str) -> str:
    from hsearch.addresses import is_address

    return text if is_address(text) else str(Path(text).expanduser().absolute())


def _absolute_data(text: str) -> str:
    from hsearch.addresses import STORE_SUFFIX

    return _absolute(text) if text.endswith(STORE_SUFFIX) or os.sep in text else text


def _absolute_recipe(text: str) -> str:
    from hsearch.recipes import is_own_file

    return _absolute(text) if is_own_file(text) else text


def _absolute_settings(texts: tuple[str, ...], weights: str) -> tuple[str, ...]:
    """Returns the texts of `--set` with the weights as the plan has them."""
    key = "model.weights="
    return tuple(f"{key}{weights}" if text.startswith(key) else text for text in texts)


def _absolute_storage(text: str) -> str:
    from hsearch.search.storage import storage_url

    url = storage_url(text)
    if url.get_backend_name() != "sqlite":
        return text
    return url.set(database=_absolute(str(url.database))).render_as_string()


def _settings() -> dict[str, str]:
    """Returns the variables of this shell that a job needs."""
    found = {name: os.environ.get(name, "") for name in _FOLDERS}
    return {n: _absolute(text) for n, text in found.items() if text and not _holds_secret(text)}

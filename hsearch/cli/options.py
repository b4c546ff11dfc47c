"""Options that several verbs share."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import click

from hsearch.addresses import read_place, shared_place

if TYPE_CHECKING:
    from hsearch.addresses import Place
    from hsearch.yaml_file import Value

_Command = TypeVar("_Command", bound=Callable[..., object])

STORAGE = "sqlite:///hsearch.db"
NO_TRACKING = "none"
SPLITS = ("stratified", "disjoint", "mlrc")
"""The values of `hsearch.folds.Splits`, which takes longer to import than `--help` may take."""


def training_options(command: _Command) -> _Command:
    """Adds what decides how a network is trained, but not the method: data, recipe, settings."""
    options = [
        click.option(
            "--data",
            show_default="glyphs; scenes for methods of several labels",
            help="Prepared name, .arrow file, or its address (s3:, gs: or file:).",
        ),
        click.option(
            "--splits",
            show_default="the recipe's; else stratified for own images, disjoint for others",
            type=click.Choice(SPLITS),
            help="How classes are split: drawn such that all folds and the test are alike, in even "
            "ranges of their order, or in the Reality Check's own ranges. `hsearch data show` "
            "shows what they hold.",
        ),
        click.option(
            "--recipe",
            show_default="follows the data",
            help="Named training settings, which `hsearch recipes` lists, or a YAML file of your "
            "own.",
        ),
        click.option(
            "--regime",
            type=click.Choice(["frozen", "lora", "full"]),
            help="What of the backbone trains: nothing, adapters, or everything. Short for --set "
            "model.regime=R; by default the recipe's.",
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="A.B=C",
            help="One knob or setting, such as method.update_period=20; repeatable.",
        ),
        click.option(
            "--epochs",
            type=click.IntRange(1),
            help="Short for --set schedule.epochs=N; by default the recipe's.",
        ),
        click.option(
            "--seed",
            default=0,
            show_default=True,
            type=click.IntRange(0),
            help="Root of every random draw; the same seed gives the same numbers.",
        ),
        click.option(
            "--objective",
            show_default="map_at_r; map for several labels",
            metavar="METRIC",
            help="What decides the best epoch and trial on the validation images, such as h_ap "
            "or level_0/map_at_r. For h_violations, where less is better, it is "
            "1 - h_violations.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def storage_option(command: _Command) -> _Command:
    """Adds `--storage`."""
    return click.option(
        "--storage",
        default=STORAGE,
        show_default=True,
        envvar="HSEARCH_STORAGE",
        show_envvar=True,
        help="Record of the studies: an SQLite file, or a PostgreSQL URL.",
    )(command)


def tracking_option(command: _Command) -> _Command:
    """Adds `--tracking-uri`."""
    return click.option(
        "--tracking-uri",
        default="sqlite:///mlflow.db",
        show_default=True,
        envvar="MLFLOW_TRACKING_URI",
        show_envvar=True,
        help="MLflow store or server; `none` switches it off.",
    )(command)


def as_place(ctx: click.Context, param: click.Parameter, value: str) -> "Place":
    """Reads a folder or an address; a file is refused."""
    place = read_place(value)
    if isinstance(place, Path) and place.is_file():
        raise click.BadParameter(f"must be a folder or an address, but {value} is a file.")
    return place


def as_places(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> "tuple[Place, ...]":
    """Reads folders and addresses."""
    return tuple(as_place(ctx, param, value) for value in values)


def out_option(text: str) -> Callable[[_Command], _Command]:
    """Returns the option `--out`, where studies have their files, with a help text."""
    return click.option(
        "--out",
        metavar="FOLDER|ADDRESS",
        default=_default_out,
        show_default="studies, in HSEARCH_SHARED where that is set",
        callback=as_place,
        help=text,
    )


def _default_out() -> str:
    shared = shared_place()
    return str("studies" if shared is None else shared / "studies")


def cluster_options(command: _Command) -> _Command:
    """Adds what decides how the machine or the cluster is used.

    The command gets it as `cluster`, the fields of `ClusterOptions` by name.
    """

    @functools.wraps(command)
    def collected(*arguments: object, **values: object) -> object:
        cluster = {name: values.pop(name) for name in names}
        return command(*arguments, cluster=cluster | {"folder": values.pop("out")}, **values)

    names = ("workers_per_fold", "cpus_per_worker", "gpus_per_worker", "groups", "address")
    options = [
        click.option(
            "--workers-per-fold",
            default=1,
            show_default=True,
            type=click.IntRange(1),
            help="DDP ranks of one fold training.",
        ),
        click.option(
            "--cpus-per-worker",
            type=click.IntRange(1),
            help="By default 1, or a GPU's share of its machine.",
        ),
        click.option(
            "--gpus-per-worker",
            type=float,
            envvar="HSEARCH_GPUS_PER_WORKER",
            show_envvar=True,
            help="A share such as 0.25 for small networks; by default 1 where there are any.",
        ),
        click.option(
            "--groups",
            type=click.IntRange(1),
            envvar="HSEARCH_GROUPS",
            show_envvar=True,
            help="Most fold trainings at once, for which a cluster grows; by default all that fit.",
        ),
        click.option(
            "--address",
            envvar="RAY_ADDRESS",
            show_envvar=True,
            help="Of a running Ray cluster to join, HOST:PORT or `auto`; by default this machine "
            "alone.",
        ),
        out_option("Folder of checkpoints, or its address (s3:, gs: or file:)."),
    ]
    found = cast("_Command", collected)
    for option in reversed(options):
        found = option(found)
    return found


def read_settings(
    texts: tuple[str, ...], epochs: int | None, regime: str | None = None
) -> "dict[str, Value]":
    """Returns the values of all `--set`, `--epochs` and `--regime` by dotted key, none twice."""
    from hsearch.training.resolve import parse_setting

    if epochs is not None:
        texts = (*texts, f"schedule.epochs={epochs}")
    if regime is not None:
        texts = (*texts, f"model.regime={regime}")
    pairs = [parse_setting(text) for text in texts]
    keys = [key for key, _ in pairs]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice:
        raise click.UsageError(f"The setting '{twice}' is given twice; give it once.")
    return dict(pairs)

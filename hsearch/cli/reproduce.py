"""`hsearch reproduce`: train the best trial again with other seeds, and test it."""

import json
import shlex
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from hsearch.cli.command import command_of
from hsearch.cli.options import (
    NO_TRACKING,
    cluster_options,
    read_settings,
    storage_option,
    tracking_option,
)
from hsearch.cli.output import print_table
from hsearch.words import plural

if TYPE_CHECKING:
    from hsearch.cluster.options import ClusterOptions
    from hsearch.search.reproduced import Protocol, ReproductionRecord, ReproductionSpec

FIRST_SEED = 1000


@click.command()
@click.argument("name", metavar="STUDY")
@click.option(
    "--runs",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    help="How many there shall be; a larger number adds some, a smaller one leaves the rest.",
)
@click.option(
    "--protocol",
    default="cross-validated",
    show_default=True,
    type=click.Choice(["cross-validated", "classic"]),
    help="A network per fold, scored separated and concatenated; or one network that is trained "
    "on all images but those of the test.",
)
@click.option(
    "--trial",
    "which",
    default="best",
    show_default=True,
    metavar="NUMBER|best",
    help="Whose knobs.",
)
@click.option(
    "--seed",
    default=FIRST_SEED,
    show_default=True,
    type=click.IntRange(0),
    help="Of the first run; the others have the next ones. Methods are compared run by run, so "
    "leave it alike for all.",
)
@click.option(
    "--recipe",
    help="Of the classic protocol, by default hpl/classic: ResNet-50, 512-d, 30 epochs; for "
    "several labels mulcon/coco: ResNet-101, 448 px, 50 epochs.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="A.B=C",
    help="One setting of the classic protocol; repeatable.",
)
@click.option(
    "--anew", is_flag=True, help="Forget the recorded runs of this protocol, and begin anew."
)
@click.option(
    "--models/--no-models",
    default=True,
    show_default=True,
    help="Log the networks of every run to MLflow.",
)
@storage_option
@tracking_option
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--dry-run", is_flag=True, help="Print what would be trained as JSON and stop.")
@click.pass_context
def reproduce(
    ctx: click.Context,
    name: str,
    runs: int,
    protocol: "Protocol",
    which: str,
    seed: int,
    recipe: str | None,
    settings: tuple[str, ...],
    anew: bool,
    models: bool,
    storage: str,
    tracking_uri: str,
    cluster: dict[str, Any],
    as_json: bool,
    dry_run: bool,
) -> None:
    """Train the best trial again with new seeds, and test it.

    Run again, it continues. Every run is scored on the test images, which the search has never
    seen. At the end stand mean, standard deviation and 95 % t-interval of all metrics over the
    runs, beside the floor: the untrained backbone's own features, or for images with several labels
    the frequencies of labels alone.
    """
    from hsearch.cli.studies import find_trial

    record, trial = find_trial(f"{name}/{which}", storage)
    from hsearch.search.plan import check_share  # slow to import, unlike a wrong name is to find
    from hsearch.search.reproduction_plan import plan_reproduction

    spec = plan_reproduction(
        record,
        trial,
        protocol,
        seed=seed,
        runs=runs,
        recipe=recipe,
        settings=read_settings(settings, None),
    )
    if dry_run:
        click.echo(json.dumps({"runs": runs, **spec.to_dict()}, indent=2))
        return
    from hsearch.cluster.options import ClusterOptions, check_options
    from hsearch.tracking.address import checked_uri

    uri = None if tracking_uri == NO_TRACKING else checked_uri(tracking_uri)
    options = ClusterOptions(**cluster)
    check_options(options)
    check_share(spec.job.training.batch_sizes, options.workers_per_fold)
    found = _reproduce(
        spec,
        runs,
        storage,
        options,
        uri,
        anew=anew,
        models=models,
        aside=as_json,
        command=command_of(ctx),
    )
    if found is None:
        return
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        _final_words(found, storage, tracking_uri)
    if not found.complete:
        raise click.exceptions.Exit(1)


def _reproduce(
    spec: "ReproductionSpec",
    runs: int,
    storage: str,
    options: "ClusterOptions",
    uri: str | None,
    *,
    anew: bool,
    models: bool,
    aside: bool,
    command: str,
) -> "ReproductionRecord | None":
    """Reproduces, and returns what came of it; None if it was stopped before."""
    from hsearch.cli.reproducing import ReproductionProgress, so_far
    from hsearch.cluster.reproducing import forget_runs, is_over, run_reproduction
    from hsearch.data.library import open_data
    from hsearch.data.places import absolute
    from hsearch.search.lease import Lease
    from hsearch.search.reproduced import runs_folder
    from hsearch.search.reproduction import Reproduction, load_reproduction
    from hsearch.search.study import Study
    from hsearch.tracking.reproductions import ReproductionTracker

    with closing(Study.load(spec.study, storage)) as study, ExitStack() as stack:
        if anew and (old := load_reproduction(spec.study, spec.protocol, storage)):
            click.echo(f"Forgetting {so_far(old)}.", err=aside)
        reproduction = stack.enter_context(closing(Reproduction.open(spec, storage, anew=anew)))
        waiting = partial(click.echo, err=aside)
        lease = stack.enter_context(Lease(reproduction, waiting=waiting))
        reproduction.set_attribute("command", command)
        reproduction.set_attribute("level_names", open_data(spec.job.data).level_names)
        if anew:
            forget_runs(options.folder, spec)
        reproduction.begin(runs)
        folder = runs_folder(absolute(options.folder), spec)
        tracker = ReproductionTracker(study, reproduction, uri, folder, models=models)
        record = reproduction.record()
        if is_over(record, runs):
            click.echo(f"Nothing is left to train: {so_far(record)}.", err=True)
        else:
            again = command.replace(" --anew", "")
            with ReproductionProgress(record, tracker.bring_up, again, aside=aside) as progress:
                run_reproduction(
                    reproduction, runs, study, options, progress, lease.lost, lease.stopping
                )
        if not tracker.bring_up():
            click.echo(f"hsearch: warning: {tracker.behind}", err=True)
        record = reproduction.record()
        if not is_over(record, runs):
            click.echo(f"Stopped from {lease.stopped_from}. {progress.parting_words()}", err=aside)
            return None
        return record


def _final_words(record: "ReproductionRecord", storage: str, tracking_uri: str) -> None:
    """Prints the result and what can be done with it, in commands that can be pasted."""
    from hsearch.cli.last_words import storage_words
    from hsearch.cli.reproducing import below_floor, floor_words, result_rows

    spec = record.spec
    columns, rows = result_rows(record)
    runs = plural(len(record.complete), "run")
    title = f"\n{spec.study}, trial {spec.trial}, {spec.protocol}: {runs} on the test images"
    print_table(columns, rows, title=title)
    click.echo("(mean +- standard deviation [95 % interval of the mean] over the runs)")
    for run in record.runs:
        if run.state == "failed":
            click.echo(f"Run {run.number} (seed {run.seed}) failed: {run.reason}")
    for kind in below_floor(record):
        floor = floor_words(record).noun
        click.echo(f"No better than {floor} ({kind}): train longer, or with other settings.")
    where = storage_words(storage)
    click.echo(
        f"\nCompare with other methods: hsearch compare {shlex.quote(spec.study)}{where} ..."
    )
    if tracking_uri != NO_TRACKING:
        from hsearch.tracking.pages import where_to_look

        for what, where in where_to_look(tracking_uri, spec.study).items():
            click.echo(f"{what}: {where}")

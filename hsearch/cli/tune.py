"""`hsearch tune`: search the knobs of one method on one data set."""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hsearch.cli.command import command_of
from hsearch.cli.last_words import final_words
from hsearch.cli.options import (
    NO_TRACKING,
    cluster_options,
    read_settings,
    storage_option,
    tracking_option,
    training_options,
)
from hsearch.cli.output import tell_recipe
from hsearch.words import plural

if TYPE_CHECKING:
    from hsearch.cluster.run import SearchOptions
    from hsearch.folds import Splits
    from hsearch.search.domain import StartPoint
    from hsearch.search.lease import Lease
    from hsearch.search.plan import StudyPlan
    from hsearch.search.record import Sampler, StudyRecord
    from hsearch.search.study import Study
    from hsearch.tracking.tracker import Tracker

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_CLOSING_SECONDS = 30.0
_LEAVING_SECONDS = 5.0


def _study_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _NAME.fullmatch(value):
        raise click.BadParameter(
            f"must be up to 100 letters, digits, dots, dashes or underscores, but is '{value}'."
        )
    return value


@click.command()
@click.option("--method", required=True, help="What to search; `hsearch methods` lists them.")
@training_options
@click.option(
    "--trials",
    show_default="the recipe's, else 50",
    type=click.IntRange(1),
    help="How many the whole study shall have; a larger number extends it.",
)
@click.option(
    "--study",
    "name",
    callback=_study_name,
    help="By default DATA-METHOD-DIGEST of all settings, so the same command continues it.",
)
@storage_option
@tracking_option
@click.option(
    "--space",
    "space_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="YAML of your own ranges instead of the method's.",
)
@click.option(
    "--sampler",
    show_default="the recipe's, else tpe",
    type=click.Choice(["tpe", "gp", "random"]),
    help="Who proposes knobs.",
)
@click.option(
    "--start-from",
    metavar="STUDY",
    help="Another study of the method, whose 5 best trials are tried right after the published "
    "values.",
)
@click.option(
    "--race/--no-race",
    default=True,
    show_default=True,
    help="End trials that are clearly behind the best one on the same folds.",
)
@click.option(
    "--hours",
    type=click.FloatRange(0, 8760, min_open=True),
    help="End the search gracefully after so long: the best so far stands, and the same command "
    "goes on.",
)
@cluster_options
@click.option(
    "--detach",
    is_flag=True,
    help="Submit the search as a job of the Ray cluster at --address (else `auto`), and leave.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print space, first knobs and settings as JSON and stop."
)
@click.pass_context
def tune(
    ctx: click.Context,
    method: str,
    data: str | None,
    splits: "Splits | None",
    recipe: str | None,
    regime: str | None,
    settings: tuple[str, ...],
    epochs: int | None,
    seed: int,
    objective: str | None,
    trials: int | None,
    name: str | None,
    storage: str,
    tracking_uri: str,
    space_file: Path | None,
    sampler: "Sampler | None",
    start_from: str | None,
    race: bool,
    hours: float | None,
    cluster: dict[str, Any],
    detach: bool,
    dry_run: bool,
) -> None:
    """Search the best knobs of a method; run again, it continues.

    Every trial is one set of knob values, trained and validated on up to four folds, of classes or,
    where images have several labels, of images; its score is the mean of the --objective. A knob
    that is set with --set is not searched.
    """
    from hsearch.search.plan import plan_study
    from hsearch.search.start_from import points_of_study
    from hsearch.tracking.address import checked_uri

    plan = plan_study(
        method=method,
        data=data,
        recipe=recipe,
        settings=read_settings(settings, epochs, regime),
        splits=splits,
        seed=seed,
        objective=objective,
        trials=trials,
        sampler=sampler,
        race=race,
        space_file=space_file,
        start_from=start_from,
    )
    if tracking_uri != NO_TRACKING:
        checked_uri(tracking_uri)
    name = name or plan.default_name
    earlier = points_of_study(plan, name, storage)
    if dry_run:
        click.echo(json.dumps(_page(plan, name, earlier), indent=2))
        return
    from hsearch.cluster.options import check_options
    from hsearch.cluster.run import SearchOptions

    if detach:
        cluster["address"] = cluster["address"] or "auto"
    options = SearchOptions(hours=hours, trials=plan.trials, **cluster)
    plan.check_workers(options.workers_per_fold)
    check_options(options)
    tell_recipe(plan.why, plan.notes, plan.warnings)
    if detach:
        from hsearch.cli.detaching import detach_search

        detach_search(ctx, plan, name, earlier)
        return
    if options.address is None:  # elsewhere each machine has its own files of weights
        from hsearch.training.pretrained import check_network

        check_network(plan.spec.job.training.model)
    _search(plan, name, storage, tracking_uri, options, command_of(ctx), earlier)


def _page(plan: "StudyPlan", name: str, earlier: "Sequence[StartPoint]") -> dict[str, object]:
    """All that is known of a study before it begins."""
    from hsearch.folds import NUM_FOLDS
    from hsearch.search.proposal import first_proposals

    spec = plan.spec.to_dict()
    space = replace(plan.space, start=(*earlier, *plan.space.start))
    first, *others = first_proposals(plan.spec.job, space)
    return {
        "study": name,
        "why": plan.why,
        "notes": list(plan.notes),
        "warnings": list(plan.warnings),
        "trials": plan.trials,
        "folds": NUM_FOLDS,
        "space": spec.pop("space"),
        "first": {"source": first.source, "values": first.knobs},
        "start": [{"source": point.source, "values": point.knobs} for point in others],
        **spec,
    }


def _search(
    plan: "StudyPlan",
    name: str,
    storage: str,
    tracking_uri: str,
    options: "SearchOptions",
    command: str,
    earlier: "Sequence[StartPoint]",
) -> None:
    from hsearch.cli.searching import SearchProgress
    from hsearch.cli.study_words import stopped_words
    from hsearch.cluster.run import TIME_IS_UP, run_search
    from hsearch.data.library import open_data
    from hsearch.search.lease import Lease
    from hsearch.search.news import Newsroom
    from hsearch.search.study import Study

    with closing(Study.open(name, storage, plan.spec, plan.space, earlier)) as study:
        lease = Lease(study, waiting=click.echo)
        try:
            with lease, _tracking(study, tracking_uri, lease, options.trials) as tracker:
                study.set_attribute("command", command)
                study.set_attribute("level_names", open_data(plan.spec.job.data).level_names)
                record = study.record()
                if record.is_over(options.trials):
                    has = plural(len(record.trials), "trial")
                    click.echo(f"Study {name} has {has}; nothing is left to train.")
                else:
                    progress = SearchProgress(record, options.trials)
                    with progress, Newsroom(study, options.trials, progress, lease.lost) as news:
                        lease.at_every_beat(news.publish)
                        run_search(study, tracker, options, news, lease.lost, lease.stopping)
        except BaseException:
            study.remove_if_unused()
            raise
        record, hours = study.record(), study.attribute(TIME_IS_UP)
    if not record.is_over(options.trials):
        if hours is not None:
            click.echo(f"The time of --hours {hours:g} is up.")
        click.echo(stopped_words(record, lease.stopped_from))
        if hours is not None and record.best is not None:
            final_words(record, storage, tracking_uri)
        return
    if tracking_uri != NO_TRACKING:
        _log_pictures(record, tracking_uri)
    final_words(record, storage, tracking_uri)
    if record.best is None:
        raise click.exceptions.Exit(1)


@contextmanager
def _tracking(study: "Study", uri: str, lease: "Lease", trials: int) -> "Iterator[Tracker | None]":
    """Projects the study to MLflow as long as it runs, and says at the end if that is behind.

    A study that was lost to another driver is projected by that one.
    """
    if uri == NO_TRACKING:
        yield None
        return
    from hsearch.tracking.tracker import Tracker

    tracker = Tracker(study.record, study.note_run, uri, lease.lost)
    broken_off = True
    try:
        yield tracker
        broken_off = False
    finally:
        patient = not broken_off and not tracker.in_trouble
        over = not broken_off and study.record().is_over(trials)
        tracker.close(_CLOSING_SECONDS if patient else _LEAVING_SECONDS, over=over)
        if not lease.lost.is_set() and tracker.behind is not None:
            click.echo(f"hsearch: warning: {tracker.behind}", err=True)


def _log_pictures(record: "StudyRecord", uri: str) -> None:
    """Draws the study and puts the pictures into its run in MLflow."""
    from hsearch.report.study_pictures import write_study_pictures
    from hsearch.tracking.address import checked_uri
    from hsearch.tracking.files import log_files

    with tempfile.TemporaryDirectory(prefix="hsearch-pictures-") as folder:
        pictures = write_study_pictures(record, Path(folder))
        if trouble := log_files(checked_uri(uri), [record], "pictures", pictures):
            click.echo(f"hsearch: warning: {trouble}", err=True)

"""`hsearch train`: one method on one fold."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from hsearch.addresses import is_address
from hsearch.cli.options import read_settings, storage_option, training_options
from hsearch.cli.output import tell_recipe
from hsearch.cli.studies import find_trial
from hsearch.words import plural

if TYPE_CHECKING:
    from hsearch.folds import Splits
    from hsearch.results import FoldResult
    from hsearch.search.record import TrialRecord
    from hsearch.spec import FoldJob

_DECIDED_BY_LIKE = (
    *("method", "data", "splits", "recipe", "regime", "settings", "epochs", "seed", "objective"),
)


def _of_this_machine(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and is_address(str(value)):
        raise click.BadParameter(
            "must be a folder of this machine; an address is for `tune` and `reproduce`."
        )
    return value


@click.command()
@click.option("--method", help="What to train; `hsearch methods` lists them.")
@click.option(
    "--like",
    metavar="STUDY/TRIAL",
    help="Train a trial of a study again, by number or `best`, instead of --method and the rest.",
)
@click.option(
    "--fold",
    default=0,
    show_default=True,
    type=click.IntRange(0, 3),
    help="Whose classes, or images, to validate on; the others are trained on.",
)
@training_options
@storage_option
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1), help="Ranks on this machine."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_of_this_machine,
    help="Folder of the run; by default runs/DATA-METHOD-fold-DIGEST.",
)
@click.option("--dry-run", is_flag=True, help="Print every setting as JSON and stop.")
@click.pass_context
def train(
    ctx: click.Context,
    method: str | None,
    like: str | None,
    fold: int,
    data: str | None,
    splits: "Splits | None",
    recipe: str | None,
    regime: str | None,
    settings: tuple[str, ...],
    epochs: int | None,
    seed: int,
    objective: str | None,
    storage: str,
    workers: int,
    out: Path | None,
    dry_run: bool,
) -> None:
    """Train one method on one fold; the same command again resumes it.

    The network of the best epoch, all settings and the result are kept in the folder of the run.
    Ctrl-C loses at most the running epoch.
    """
    from hsearch.training.pretrained import check_network
    from hsearch.training.resolve import resolve

    trial, resolved = None, None
    if like is not None:
        _refuse_decided(ctx)
        _, trial = find_trial(like, storage)
        job = trial.job.model_copy(update={"fold": fold})
    elif method is None:
        raise click.UsageError("Say what to train: --method NAME, or --like STUDY/TRIAL.")
    else:
        resolved = resolve(
            method=method,
            data=data,
            recipe=recipe,
            settings=read_settings(settings, epochs, regime),
            splits=splits,
            fold=fold,
            seed=seed,
            objective=objective,
        )
        job = resolved.job
    if dry_run:
        click.echo(json.dumps(job.to_dict(), indent=2))
        return
    if resolved is not None:
        tell_recipe(resolved.why, resolved.notes, resolved.warnings)
        check_network(job.training.model)
    _train(job, trial, workers, out or _default_folder(job))


def _refuse_decided(ctx: click.Context) -> None:
    """Raises if an option is given that the trial of `--like` decides."""
    for option in ctx.command.params:
        given = ctx.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
        if option.name in _DECIDED_BY_LIKE and given:
            raise click.UsageError(
                f"--like trains the very trial, so {option.opts[0]} is decided already; leave it "
                "out, or leave --like out."
            )


def _train(job: "FoldJob", trial: "TrialRecord | None", workers: int, folder: Path) -> None:
    from hsearch.cli.progress import TrainingProgress
    from hsearch.data.library import open_data
    from hsearch.training.folder import RunFolder
    from hsearch.training.launch import train_locally

    recorded = [] if trial is None else _nearest_first(trial, job.fold)
    if recorded and recorded[0].ranks != workers:
        click.echo(
            f"The trial was recorded with {plural(recorded[0].ranks, 'rank')}, so that the score "
            f"may differ by rounding with {workers}."
        )
    names = open_data(job.data).level_names
    with _threads_of(recorded), TrainingProgress(job, folder, names) as progress:
        result = train_locally(job, progress, folder, workers)
        RunFolder(folder).remove_state()
        progress.finished(result)
    if trial is not None:
        click.echo(_comparison(trial, result))


def _nearest_first(trial: "TrialRecord", fold: int) -> "list[FoldResult]":
    """The trial's results, that of the fold before all others."""
    return sorted(trial.folds.values(), key=lambda result: result.job.fold != fold)


@contextmanager
def _threads_of(recorded: "list[FoldResult]") -> Iterator[None]:
    """As many threads as the first record that tells: another number sums in another order."""
    import torch

    before = torch.get_num_threads()
    threads = next((result.threads for result in recorded if result.threads), before)
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _comparison(trial: "TrialRecord", result: "FoldResult") -> str:
    recorded = trial.folds.get(result.job.fold)
    if recorded is None or recorded.score is None or result.score is None:
        return f"The study has no score of trial {trial.number} on fold {result.job.fold}."
    if recorded.score == result.score:
        return f"The score is exactly the recorded one of trial {trial.number}."
    return (
        f"The score differs from the recorded {recorded.score:.4f} of trial {trial.number} "
        f"by {result.score - recorded.score:+.1e}; {_why(recorded, result)}."
    )


def _why(recorded: "FoldResult", here: "FoldResult") -> str:
    """The most likely reason of another score."""
    before, now = recorded.versions, here.versions
    others = [f"{name} {before[name]}" for name in before if before[name] != now.get(name)]
    if recorded.ranks != here.ranks:
        others.append(plural(recorded.ranks, "rank"))
    if recorded.threads not in (None, here.threads):
        others.append(plural(recorded.threads or 0, "thread"))
    if others:
        return f"it was recorded with {', '.join(others)}"
    return "another kind of processor or number of threads rounds otherwise"


def _default_folder(job: "FoldJob") -> Path:
    return Path("runs") / f"{job.data_name}-{job.method.name}-fold{job.fold}-{job.digest()}"

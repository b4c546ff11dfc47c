"""`hsearch train`: one method on one fold."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from hsearch.cli.options import read_settings, storage_option, training_options

if TYPE_CHECKING:
    from hsearch.search.record import TrialRecord
    from hsearch.spec import FoldJob

_DECIDED_BY_LIKE = ("method", "data", "splits", "recipe", "settings", "epochs", "seed")


@click.command()
@click.option("--method", help="What to train; `hsearch methods` lists them.")
@click.option(
    "--like",
    metavar="STUDY/TRIAL",
    help="Train a trial of a study again, by number or `best`, instead of --method and the rest.",
)
@click.option("--fold", default=0, show_default=True, type=click.IntRange(0, 3))
@training_options
@storage_option
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1), help="Ranks on this machine."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the run; by default runs/DATA-METHOD-fold-DIGEST.",
)
@click.option("--dry-run", is_flag=True, help="Print every setting as JSON and stop.")
@click.pass_context
def train(
    ctx: click.Context,
    method: str | None,
    like: str | None,
    fold: int,
    data: str,
    splits: str,
    recipe: str,
    settings: tuple[str, ...],
    epochs: int | None,
    seed: int,
    storage: str,
    workers: int,
    out: Path | None,
    dry_run: bool,
) -> None:
    """Train one method on one fold; the same command again resumes it.

    The network of the best epoch, all settings and the result are kept in the folder of the run.
    Ctrl-C loses at most the running epoch.
    """
    from hsearch.training.resolve import resolve_job

    trial = None
    if like is not None:
        _refuse_decided(ctx)
        trial = find_trial(like, storage)
        job = trial.job.model_copy(update={"fold": fold})
    elif method is None:
        raise click.UsageError("Say what to train: --method NAME, or --like STUDY/TRIAL.")
    else:
        job = resolve_job(
            method=method,
            data=data,
            recipe=recipe,
            settings=read_settings(settings, epochs),
            splits="mlrc" if splits == "mlrc" else "disjoint",
            fold=fold,
            seed=seed,
        )
    if dry_run:
        click.echo(json.dumps(job.to_dict(), indent=2))
        return
    _train(job, trial, workers, out or _default_folder(job))


def find_trial(like: str, storage: str) -> "TrialRecord":
    """Returns the trial that `STUDY/NUMBER` or `STUDY/best` names."""
    from hsearch.cli.studies import read_record
    from hsearch.errors import ConfigError, did_you_mean

    study, slash, which = like.rpartition("/")
    if not slash or not study or not which:
        raise ConfigError(f"--like must be STUDY/NUMBER or STUDY/best, but got '{like}'.")
    record = read_record(study, storage)
    if which == "best":
        if record.best is None:
            raise ConfigError(
                f"No trial of {study} has finished all folds, so none is the best; name one by its "
                f"number, which `hsearch studies {study}` shows."
            )
        return record.best
    trials = {str(trial.number): trial for trial in record.trials}
    if which not in trials:
        raise ConfigError(
            f"{study} has no trial '{which}'; {did_you_mean(which, ['best', *trials])}"
        )
    return trials[which]


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
    from hsearch.training.launch import train_locally

    threads = nullcontext() if trial is None else _as_in_a_search()
    with threads, TrainingProgress(job, folder) as progress:
        result = train_locally(job, progress, folder, workers)
        progress.finished(result)
    if trial is not None:
        recorded = trial.folds.get(job.fold)
        if recorded is None:
            click.echo(f"The study has no score of trial {trial.number} on fold {job.fold}.")
        elif recorded.score == result.score:
            click.echo(f"The score is exactly the recorded one of trial {trial.number}.")
        else:
            click.echo(
                f"The score differs from the recorded {recorded.score:.4f} of trial {trial.number} "
                f"by {result.score - recorded.score:+.1e}{_why(recorded.versions, result.versions)}"
            )


@contextmanager
def _as_in_a_search() -> Iterator[None]:
    """One thread on a CPU, as a search's workers have by default: another number sums otherwise."""
    import torch

    before = torch.get_num_threads()
    if not torch.cuda.is_available() and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _why(recorded: dict[str, str], here: dict[str, str]) -> str:
    """The most likely reason of another score."""
    others = [f"{name} {recorded[name]}" for name in recorded if recorded[name] != here.get(name)]
    if others:
        return f"; it was recorded with {', '.join(others)}."
    return "; another number of workers, threads or kind of processor rounds otherwise."


def _default_folder(job: "FoldJob") -> Path:
    data = Path(job.data).stem
    return Path("runs") / f"{data}-{job.method.name}-fold{job.fold}-{job.digest()}"

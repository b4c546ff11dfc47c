"""`hsearch train`: one method on one fold."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hsearch.spec import FoldJob


@click.command()
@click.option("--method", required=True, help="What to train; `hsearch methods` lists them.")
@click.option("--data", default="glyphs", show_default=True, help="Prepared name or .arrow file.")
@click.option("--fold", default=0, show_default=True, type=click.IntRange(0, 3))
@click.option(
    "--splits",
    default="disjoint",
    show_default=True,
    type=click.Choice(["disjoint", "mlrc"]),
    help="Even class-disjoint folds, or the Reality Check's own ranges.",
)
@click.option("--recipe", default="small", show_default=True, help="Named training settings.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="A.B=C",
    help="One knob or setting, such as method.update_period=20; repeatable.",
)
@click.option("--epochs", type=click.IntRange(1), help="Short for --set schedule.epochs=N.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1), help="Ranks on this machine."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the run; by default runs/DATA-METHOD-fold-DIGEST.",
)
@click.option("--dry-run", is_flag=True, help="Print every setting as JSON and stop.")
def train(
    method: str,
    data: str,
    fold: int,
    splits: str,
    recipe: str,
    settings: tuple[str, ...],
    epochs: int | None,
    seed: int,
    workers: int,
    out: Path | None,
    dry_run: bool,
) -> None:
    """Train one method on one fold; the same command again resumes it.

    The network of the best epoch, all settings and the result are kept in the folder of the run.
    Ctrl-C loses at most the running epoch.
    """
    from hsearch.cli.progress import TrainingProgress
    from hsearch.training.launch import train_locally
    from hsearch.training.resolve import parse_setting, resolve_job

    if epochs is not None:
        settings = (*settings, f"schedule.epochs={epochs}")
    given = dict(pairs := [parse_setting(text) for text in settings])
    if len(given) < len(pairs):
        twice = next(key for key, _ in pairs if [k for k, _ in pairs].count(key) > 1)
        raise click.UsageError(f"The setting '{twice}' is given twice; give it once.")
    job = resolve_job(
        method=method,
        data=data,
        recipe=recipe,
        settings=given,
        splits="mlrc" if splits == "mlrc" else "disjoint",
        fold=fold,
        seed=seed,
    )
    if dry_run:
        click.echo(json.dumps(job.to_dict(), indent=2))
        return
    folder = out or _default_folder(job)
    with TrainingProgress(job, folder) as progress:
        result = train_locally(job, progress, folder, workers)
        progress.finished(result)


def _default_folder(job: "FoldJob") -> Path:
    data = Path(job.data).stem
    return Path("runs") / f"{data}-{job.method.name}-fold{job.fold}-{job.digest()}"

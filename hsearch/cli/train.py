"""`hsearch train`: one method on one fold."""

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
) -> None:
    """Train one method on one fold; the same command again resumes it.

    The network of the best epoch, all settings and the result are kept in the folder of the run.
    Ctrl-C loses at most the running epoch.
    """
    from hsearch.cli.progress import TrainingProgress
    from hsearch.training.launch import train_locally
    from hsearch.training.resolve import parse_setting, resolve_job

    given = dict(parse_setting(text) for text in settings)
    if epochs is not None:
        given["schedule.epochs"] = epochs
    job = resolve_job(
        method=method,
        data=data,
        recipe=recipe,
        settings=given,
        splits="mlrc" if splits == "mlrc" else "disjoint",
        fold=fold,
        seed=seed,
    )
    folder = out or _default_folder(job)
    with TrainingProgress(job, folder) as progress:
        result = train_locally(job, progress, folder, workers)
        progress.finished(result)


def _default_folder(job: "FoldJob") -> Path:
    data = Path(job.data).stem
    return Path("runs") / f"{data}-{job.method.name}-fold{job.fold}-{job.digest()}"

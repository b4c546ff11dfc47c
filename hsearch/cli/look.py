"""`hsearch look`: pictures of a study or of a trained network."""

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from hsearch.addresses import read_place
from hsearch.cli.options import out_option, storage_option
from hsearch.words import plural

if TYPE_CHECKING:
    from hsearch.addresses import Place
    from hsearch.report.looking import LookPart
    from hsearch.search.record import StudyRecord

_PARTS_OF_FOLD = 3  # STUDY/trial-0007/fold-0


@click.command()
@click.argument("name", metavar="STUDY|RUN")
@click.option(
    "--on",
    "part",
    default="validation",
    show_default=True,
    type=click.Choice(["validation", "test"]),
    help="Whose images a network is shown with: the fold's validation images, or the test's.",
)
@click.option(
    "--to",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the pictures go; by default looks/NAME.",
)
@storage_option
@out_option("Folder of checkpoints that the search was given, or its address.")
def look(name: str, part: "LookPart", folder: Path | None, storage: str, out: "Place") -> None:
    """Draw pictures of a study or of a trained network.

    Of a study: its history, what the race saved, and its knobs; and the network of the best trial's
    fold 0, if it is kept. Of a run's folder or address: what queries find, maps of the embeddings
    before and after training, the metrics of every level, violations of the hierarchy, confusions,
    and the hierarchy that the method has learned; for images with several labels, where the network
    looks for a label, which labels are alike, what labels find, and how well each is told.
    """
    run = read_place(name)
    if not isinstance(run, Path) or _is_run(run, name):
        _look_at_run(run, folder or Path("looks") / _run_name(run), part)
        return
    name = name.removesuffix("/best")
    record = _read_record(name, storage)
    folder = folder or Path("looks") / name
    _look_at_study(record, folder)
    if network := _best_network(record, out / name):
        click.echo(f"Fold 0 of the best trial, {network}:")
        _look_at_run(network, folder / "best", part)


def _is_run(path: Path, name: str) -> bool:
    """Whether a run's folder is meant, right or wrong, rather than a study."""
    return (path / "job.json").exists() or (path.is_dir() and path.name != name)


def _look_at_study(record: "StudyRecord", folder: Path) -> None:
    from hsearch.report.study_pictures import undrawn, write_study_pictures

    _tell(write_study_pictures(record, folder), folder)
    for sentence in undrawn(record):
        click.echo(sentence)


def _look_at_run(run: "Place", folder: Path, part: "LookPart") -> None:
    from hsearch.cli.counting import showing
    from hsearch.report.model_pictures import write_model_pictures
    from hsearch.training.kept import local_runs

    with local_runs([run]) as (here,), showing() as progress:
        written = write_model_pictures(here, folder, part, progress)
    _tell(written, folder)


def _read_record(name: str, storage: str) -> "StudyRecord":
    from hsearch.cli.studies import read_record
    from hsearch.errors import ConfigError

    try:
        return read_record(name, storage)
    except ConfigError as error:
        raise ConfigError(f"'{name}' is no run's folder, and no study either. {error}") from error


def _best_network(record: "StudyRecord", folder: "Place") -> "Place | None":
    """The folder of fold 0 of the best trial, or None with a sentence that says it is not there."""
    from hsearch.training.folder import fold_folder
    from hsearch.training.kept import has_network

    if record.best is None:
        return None
    run = fold_folder(folder, record.best.number, 0)
    if has_network(run):
        return run
    click.echo(f"No network of the best trial is kept in {run}; name the search's folder by --out.")
    return None


def _run_name(run: "Place") -> str:
    """The last part of a run's path, or of a search's fold enough to tell it from others."""
    parts = (run.resolve() if isinstance(run, Path) else PurePosixPath(run.path)).parts
    return "-".join(parts[-_PARTS_OF_FOLD:]) if parts[-1].startswith("fold-") else parts[-1]


def _tell(written: list[Path], folder: Path) -> None:
    if written:
        click.echo(f"{plural(len(written), 'picture')} in {folder}:")
        click.echo("\n".join(f"  {path.name}" for path in written))

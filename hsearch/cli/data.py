"""`hsearch data`: what is prepared, what can be prepared, and preparing it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hsearch.cli.output import print_table

if TYPE_CHECKING:
    from hsearch.data.store import Store
    from hsearch.folds import ClassSplits, Splits

_EXAMPLES = 3


def _size(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    """Reads a number of pixels, or the word `original` as None."""
    if value == "original":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"must be a number from 1 or `original`, but is '{value}'.")
    return int(value)


def _new_file(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuses a file in no folder before hours of work, not after."""
    if value and not value.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {value.parent} does not exist.")
    return value


@click.group()
def data() -> None:
    """Prepare data sets and look at them."""


@data.command("list")
def list_data() -> None:
    """Show the prepared data sets and the sources that can be prepared."""
    from hsearch.data.library import data_folder, open_data, prepared_names
    from hsearch.data.sources import available_sources, load_source
    from hsearch.errors import DatasetError

    rows = []
    for name in prepared_names():
        try:
            store = open_data(name)
        except DatasetError as error:
            rows.append((name, "-", "-", "-", str(error)))
            continue
        hierarchy = store.hierarchy
        levels = " > ".join(hierarchy.level_names)
        size = _megabytes(store.path.stat().st_size)
        rows.append((name, str(len(store)), str(hierarchy.num_classes), levels, size))
    columns = ("name", "images", "classes", "levels", "size")
    print_table(columns, rows, title=f"Prepared in {data_folder()}:")
    sources = [load_source(name) for name in available_sources()]
    about = [(source.name, source.about) for source in sources]
    print_table(("name", "what"), about, title="\nSources that can be prepared:")


@data.command()
@click.argument("name")
@click.option(
    "--from",
    "path",
    type=click.Path(path_type=Path),
    help="Folder of images, or a .csv or .parquet table.",
)
@click.option(
    "--size",
    callback=_size,
    metavar="N|original",
    default="256",
    show_default=True,
    help="Largest short side in pixels; images are never enlarged.",
)
@click.option("--skip-bad", is_flag=True, help="Go on without the files that cannot be used.")
@click.option("--force", is_flag=True, help="Replace a data set of that name.")
@click.option(
    "--report",
    "report_file",
    metavar="FILE.csv",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    callback=_new_file,
    help="List there whatever cannot be used, or is worth a look.",
)
def prepare(
    name: str,
    path: Path | None,
    size: int | None,
    skip_bad: bool,
    force: bool,
    report_file: Path | None,
) -> None:
    """Read a data set once, check every image, and write its store."""
    from hsearch.cli.counting import showing
    from hsearch.cli.preparing import print_found, write_found
    from hsearch.data.library import open_data, store_path
    from hsearch.data.library import prepare as prepare_store
    from hsearch.data.records import BadFilesError

    if path and report_file and path.resolve() == report_file.resolve():
        raise click.UsageError("--report would overwrite the table of --from; name another file.")
    stopped = None
    try:
        with showing() as progress:
            report = prepare_store(
                name, path, size=size, skip_bad=skip_bad, force=force, progress=progress
            )
    except BadFilesError as error:
        stopped, report = error, error.report
    print_found(report)
    if report_file:
        write_found(report_file, report)
        click.echo(f"All of it is listed in {report_file}")
    if stopped:
        raise stopped
    classes = f"{report.classes} {'class' if report.classes == 1 else 'classes'}"
    click.echo(f"{name}: {report.images} images of {classes} in {store_path(name)}")
    splits = _splits(open_data(name))
    if isinstance(splits, str):
        click.echo(f"hsearch: warning: these data cannot be trained on yet. {splits}", err=True)


@data.command()
@click.argument("name")
@click.option(
    "--splits",
    "kind",
    type=click.Choice(("disjoint", "mlrc")),
    default="disjoint",
    show_default=True,
    help="Kind of folds.",
)
def show(name: str, kind: "Splits") -> None:
    """Show levels, sizes, splits, folds and provenance of a data set."""
    from hsearch.data.library import open_data

    store = open_data(name)
    hierarchy = store.hierarchy
    levels = [
        (level, str(len(names)), ", ".join(names[:_EXAMPLES]))
        for level, names in zip(hierarchy.level_names, hierarchy.names, strict=True)
    ]
    title = f"{store.name}: {len(store)} images, {_megabytes(store.path.stat().st_size)}"
    print_table(("level", "labels", "such as"), levels, title=title)
    print_table(("what", "value"), [*_facts(store), *_provenance(store)], title="")
    splits = _splits(store, kind)
    if isinstance(splits, str):
        click.echo(f"\nNo folds: {splits}")
    else:
        print_table(("part", "classes", "images"), _folds(store, splits), title="")


def _facts(store: "Store") -> list[tuple[str, str]]:
    import numpy as np

    from hsearch.data.library import MEMORY_SHARE

    decoded = _megabytes(3 * int((store.heights * store.widths).sum()))
    counts = np.bincount(store.classes)
    splits, members = np.unique(store.split, return_counts=True)
    return [
        ("images per class", f"{counts.min()} to {counts.max()}, mean {counts.mean():.1f}"),
        ("height", f"{store.heights.min()} to {store.heights.max()} px"),
        ("width", f"{store.widths.min()} to {store.widths.max()} px"),
        ("split", ", ".join(f"{s or 'none'}: {n}" for s, n in zip(splits, members, strict=True))),
        ("queries", str(int(store.is_query.sum()))),
        ("gallery", str(int(store.is_gallery.sum()))),
        (
            "decoded",
            f"{decoded}; kept in a cache where it fits {MEMORY_SHARE:.0%} of the memory, from "
            "which the least recently used files go",
        ),
        ("digest", store.digest),
        ("file", str(store.path)),
    ]


def _provenance(store: "Store") -> list[tuple[str, str]]:
    return [(key, str(value)) for key, value in store.provenance.items() if value is not None]


def _splits(store: "Store", kind: "Splits" = "disjoint") -> "ClassSplits | str":
    """The splits, or the sentence that says why there are none."""
    from hsearch.data.splits import store_splits
    from hsearch.errors import HsearchError

    try:
        return store_splits(store, kind)
    except HsearchError as error:
        return str(error)


def _folds(store: "Store", splits: "ClassSplits") -> list[tuple[str, str, str]]:
    parts = [("trainval", splits.trainval), ("test", splits.test)]
    for number, fold in enumerate(splits.folds):
        parts += [(f"fold {number} train", fold.train), (f"fold {number} val", fold.validation)]
    return [(part, str(len(ids)), str(len(store.rows(ids)))) for part, ids in parts]


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"

"""`hsearch data`: what is prepared, what can be prepared, and preparing it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hsearch.cli.options import SPLITS
from hsearch.cli.output import megabytes, print_table

if TYPE_CHECKING:
    from hsearch.data.records import Report
    from hsearch.data.splits import StoreSplits
    from hsearch.data.store import Store
    from hsearch.folds import Splits


def _size(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    """Reads a number of pixels, or the word `original` as None."""
    if value == "original":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"must be a number from 1 or `original`, but is '{value}'.")
    return int(value)


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(name.strip() for name in value.split(","))


def _new_file(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuses a file in no folder before hours of work, not after."""
    if value and not value.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {value.parent} does not exist.")
    return value


@click.group()
def data() -> None:
    """Prepare data sets and look at them."""


@data.command("list")
@click.argument("name", required=False)
def list_data(name: str | None) -> None:
    """Show what is prepared and what can be, or the files that NAME is prepared from."""
    if name is None:
        _list_prepared()
        _list_shared()
        _list_sources()
    else:
        _describe(name)


def _describe(name: str) -> None:
    from hsearch.data.sources import load_source

    source = load_source(name)
    click.echo(f"{name}: {source.about}.\n\n{source.description}\n")
    if source.level_names:
        click.echo(f"Levels: {' > '.join(source.level_names)}")
    if source.home:
        click.echo(f"Home: {source.home}")
    files = " --from FOLDER_OR_ARCHIVE" if source.home else " --from PATH"
    click.echo(f"Prepare: hsearch data prepare {name}{files if source.needs_path else ''}")


def _list_prepared() -> None:
    from hsearch.data.library import data_folder, open_data, prepared_names
    from hsearch.errors import DatasetError

    rows = []
    for name in prepared_names():
        try:
            store = open_data(name)
        except DatasetError as error:
            rows.append((name, "-", "-", "-", str(error)))
            continue
        levels = "tags" if store.tag_names else " > ".join(store.hierarchy.level_names)
        labels = len(store.tag_names) or store.hierarchy.num_classes
        size = megabytes(store.path.stat().st_size)
        rows.append((name, str(len(store)), str(labels), levels, size))
    columns = ("name", "images", "classes", "levels", "size")
    print_table(columns, rows, title=f"Prepared in {data_folder()}:")


def _list_shared() -> None:
    from hsearch.data.library import shared_data, shared_names
    from hsearch.errors import DatasetError

    if (shared := shared_data()) is None:
        return
    try:
        rows = [(name,) for name in shared_names()]
    except DatasetError as error:
        click.echo(f"\n{error}")
        return
    print_table(("name",), rows, title=f"\nShared in {shared}:")


def _list_sources() -> None:
    from hsearch.data.sources import available_sources, load_source

    sources = [load_source(name) for name in available_sources()]
    others = [(source.name, source.about) for source in sources if not source.home]
    official = [
        (source.name, " > ".join(source.level_names or ["tags"]), source.about.partition(":")[0])
        for source in sources
        if source.home
    ]
    print_table(("name", "reads"), others, title="\nYour own images, or made without files:")
    print_table(("name", "levels", "what"), official, title="\nData sets in their official files:")
    click.echo("\n`hsearch data list NAME` tells which files a data set is prepared from.")


@data.command()
@click.argument("name")
@click.option(
    "--from",
    "path",
    type=click.Path(path_type=Path),
    help="Folder of images, a .csv or .parquet table, or the folder or archive of official files.",
)
@click.option(
    "--source",
    metavar="NAME",
    help="Whose layout the files have, as `data list` names it; by default that of the data set's "
    "own name, or else what the path looks like.",
)
@click.option(
    "--size",
    callback=_size,
    metavar="N|original",
    default="256",
    show_default=True,
    help="Largest short side in pixels; images are never enlarged.",
)
@click.option(
    "--levels",
    callback=_names,
    metavar="NAME,NAME",
    help="What the levels of own images are called, the coarsest first, such as family,species; of "
    "a table also the columns that hold them.",
)
@click.option("--skip-bad", is_flag=True, help="Go on without the files that cannot be used.")
@click.option("--force", is_flag=True, help="Replace a data set of that name.")
@click.option(
    "--to",
    metavar="ADDRESS",
    help="Write the store to a folder or .arrow file at s3:, gs: or file: too, from where other "
    "machines read it with --data; without --from, the store that is prepared already.",
)
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
    source: str | None,
    size: int | None,
    levels: tuple[str, ...] | None,
    skip_bad: bool,
    force: bool,
    to: str | None,
    report_file: Path | None,
) -> None:
    """Read a data set once, check every image, and write its store."""
    from hsearch.cli.sending import send_store
    from hsearch.data.library import prepared_names
    from hsearch.data.remote import new_address

    address = new_address(to, name, force=force) if to else None
    if address and path is None and name in prepared_names():
        _check_sent_as_it_is(name)
    else:
        _prepare(name, path, source, size, levels, skip_bad, force, report_file)
    if address:
        send_store(name, address)


def _check_sent_as_it_is(name: str) -> None:
    """Refuses options that say how to prepare where nothing is prepared."""
    ctx = click.get_current_context()
    options = {"source": "--source", "size": "--size", "levels": "--levels"}
    options |= {"skip_bad": "--skip-bad", "report_file": "--report"}
    default = click.core.ParameterSource.DEFAULT
    given = [option for key, option in options.items() if ctx.get_parameter_source(key) != default]
    if given:
        raise click.UsageError(
            f"The data '{name}' are prepared and would be sent as they are, but {', '.join(given)} "
            "says how to prepare; leave it out, or prepare them again with --from and --force."
        )


def _prepare(
    name: str,
    path: Path | None,
    source: str | None,
    size: int | None,
    levels: tuple[str, ...] | None,
    skip_bad: bool,
    force: bool,
    report_file: Path | None,
) -> None:
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
                name,
                path,
                source=source,
                size=size,
                levels=levels,
                skip_bad=skip_bad,
                force=force,
                progress=progress,
            )
    except BadFilesError as error:
        stopped, report = error, error.report
    print_found(report)
    if report_file:
        write_found(report_file, report)
        click.echo(f"All of it is listed in {report_file}")
    if stopped:
        raise stopped
    click.echo(f"{name}: {report.images} images {_labels(report)} in {store_path(name)}")
    splits = _splits(open_data(name))
    if isinstance(splits, str):
        click.echo(f"hsearch: warning: these data cannot be trained on yet. {splits}", err=True)


def _labels(report: "Report") -> str:
    if report.tags:
        return f"with {report.tags} {'tag' if report.tags == 1 else 'tags'}"
    return f"of {report.classes} {'class' if report.classes == 1 else 'classes'}"


@data.command()
@click.argument("name")
@click.option(
    "--splits",
    "kind",
    type=click.Choice(SPLITS),
    show_default="follows the data: stratified for own images, else disjoint",
    help="Whose folds and test to show.",
)
@click.option(
    "--sheet",
    metavar="FILE.png",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_new_file,
    help="Where the contact sheet goes; by default beside the store, or for one at an address into "
    "the current folder.",
)
def show(name: str, kind: "Splits | None", sheet: Path | None) -> None:
    """Show levels, sizes, splits, folds and provenance of a data set, and draw a contact sheet.

    What every fold validates on and what the test holds is counted level by level.
    The sheet shows images of classes from all over the hierarchy, or of frequent to rare tags.
    """
    from hsearch.addresses import is_address
    from hsearch.cli import store_summary
    from hsearch.data.contact_sheet import write_contact_sheet
    from hsearch.data.library import open_data
    from hsearch.data.splits import default_splits

    store = open_data(name)
    kind = kind or default_splits(store)
    size = megabytes(store.path.stat().st_size)
    click.echo(f"{store.name}: {len(store)} images, {size}")
    if store.tag_names:
        print_table(("tag", "images"), store_summary.tags(store))
    else:
        print_table(("level", "labels", "such as"), store_summary.levels(store))
    print_table(("what", "value"), store_summary.facts(store), title="")
    splits = _splits(store, kind)
    if isinstance(splits, str):
        click.echo(f"\nNo folds: {splits}")
    else:
        title = f"\n{store_summary.split_words(store, kind)}"
        print_table(*store_summary.folds(store, splits), title=title)
        for sentence in store_summary.idle_levels(store, splits):
            click.echo(sentence)
    path = sheet or (
        Path(f"{store.name}.png") if is_address(name) else store.path.with_suffix(".png")
    )
    write_contact_sheet(store, path)
    click.echo(f"\nContact sheet: {path}")


def _splits(store: "Store", kind: "Splits | None" = None) -> "StoreSplits | str":
    """The splits, or the sentence that says why there are none."""
    from hsearch.data.splits import split_store
    from hsearch.errors import HsearchError

    try:
        return split_store(store, kind)
    except HsearchError as error:
        return str(error)

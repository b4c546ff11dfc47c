"""The data sets of this machine: where stores lie, how they get there, how they are opened."""

import difflib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from hsearch.addresses import (
    STORE_SUFFIX,
    Address,
    address_in,
    is_address,
    read_folder,
    shared_place,
)
from hsearch.data.layout import Found
from hsearch.data.objects import Objects
from hsearch.data.progress import Progress, silent
from hsearch.data.records import (
    BadFilesError,
    LevelNames,
    Note,
    Problem,
    Record,
    Report,
    check_level_names,
)
from hsearch.data.remote import open_remote
from hsearch.data.sources import Source, available_sources, load_source
from hsearch.data.sources.huggingface import metadata_files
from hsearch.data.store import Store
from hsearch.data.store_writer import write_store
from hsearch.errors import DatasetError
from hsearch.files import locked

SUFFIX = STORE_SUFFIX
DEFAULT_SIZE = 256
MEMORY_SHARE = 0.25
"""Of the physical memory, that all decoded images of this machine may take together."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TABLE_SUFFIXES = (".csv", ".parquet")
_LISTED = 10


def data_folder() -> Path:
    """Returns the folder of all prepared data: $HSEARCH_DATA, or `~/.cache/hsearch`."""
    given = os.environ.get("HSEARCH_DATA")
    if given and is_address(given):
        raise DatasetError(
            "HSEARCH_DATA is a folder of this machine, not an address; stores at an address are "
            "written with `hsearch data prepare NAME --to ADDRESS` and opened with --data ADDRESS."
        )
    folder = Path(given).expanduser() if given else Path.home() / ".cache" / "hsearch"
    file = next((path for path in (folder, *folder.parents) if path.is_file()), None)
    if file:
        raise DatasetError(
            f"Prepared data lie in a folder, but {file} is a file; set HSEARCH_DATA to a folder."
        )
    return folder


def prepared_names() -> list[str]:
    """Returns the names of all prepared stores, sorted."""
    return sorted(
        path.stem for path in data_folder().glob(f"*{SUFFIX}") if not path.name.startswith(".")
    )


def shared_data() -> Address | None:
    """Returns where machines share prepared data: the folder `data` of $HSEARCH_SHARED."""
    return _shared("data")


def pixels_folder() -> Path:
    """Returns the folder of all decoded images of this machine."""
    return data_folder() / "pixels"


def features_folder() -> Path:
    """Returns the folder of all cached features of this machine."""
    return data_folder() / "features"


def shared_features() -> Address | None:
    """Returns where machines share cached features: the folder `features` of $HSEARCH_SHARED."""
    return _shared("features")


def _shared(folder: str) -> Address | None:
    shared = shared_place()
    if isinstance(shared, Path):
        shared = read_folder(shared.absolute().as_uri())
    return shared / folder if shared else None


def shared_names() -> list[str]:
    """Returns the names of all stores in `shared_data`, sorted."""
    shared = shared_data()
    found = Objects(shared).children() if shared else []
    return [name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX)]


def is_name(data: str) -> bool:
    """Returns whether data are named, rather than given by the path or address of a store."""
    return not (is_address(data) or data.endswith(SUFFIX) or os.sep in data)


def open_data(name_or_path: str) -> Store:
    """Opens a prepared data set by name, or a store by the path or address of its `.arrow` file.

    Of a store at an address (`s3:`, `gs:` or `file:`) a copy is made once per machine, while one
    at a path is read where it lies.
    A data set that needs no files, such as `glyphs`, is prepared at its first use; one that is not
    prepared on this machine is opened from `shared_data`, as a copy.
    """
    if is_address(name_or_path):
        return open_remote(name_or_path, data_folder() / "remote")
    given = Path(name_or_path).expanduser()
    if not is_name(name_or_path):
        _check_prepared(given)
        return Store.open(given)
    if not _NAME.fullmatch(name_or_path):
        _check_prepared(given)
    path = store_path(name_or_path)
    _make_embedded(name_or_path, path)
    if path.exists():
        return Store.open(path)
    _check_prepared(given)
    if name_or_path in shared_names():
        address = address_in(str(shared_data()), name_or_path)
        return open_remote(str(address), data_folder() / "remote")
    raise DatasetError(_unknown(name_or_path))


def _make_embedded(name: str, path: Path) -> None:
    """Prepares a data set that needs no files, unless that is done."""
    if not path.exists() and name in available_sources():
        source = load_source(name)
        if not source.needs_path:
            with locked(_lock(path)):
                if not path.exists():
                    _write(path, source, None, DEFAULT_SIZE)


def _check_prepared(path: Path) -> None:
    """Raises for images and tables, which must become a store first."""
    is_folder = os.path.isdir(path)  # unlike Path.is_dir, no error for names that are too long
    if is_folder or path.suffix.lower() in _TABLE_SUFFIXES:
        kind = "a folder" if is_folder else "a table"
        raise DatasetError(
            f"Data must be prepared, but {path} is {kind}; first run `hsearch data prepare NAME "
            f"--from {shlex.quote(str(path))}`, then give NAME."
        )


def _unknown(name: str) -> str:
    if name in available_sources() and (home := load_source(name).home):
        return (
            f"The data '{name}' are not prepared; get them at {home} and run `hsearch data prepare "
            f"{name} --from FOLDER_OR_ARCHIVE`."
        )
    names = sorted({*_names(), *shared_names()})
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.65)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return (
        f"There is no prepared data '{name}'.{hint} There are: {', '.join(names[:_LISTED])}{more}. "
        f"Make it with `hsearch data prepare {name} --from PATH`."
    )


def store_path(name: str) -> Path:
    """Returns where the store of that name lies, or would lie."""
    if not _NAME.fullmatch(name):
        raise DatasetError(
            "The name of a data set must be up to 100 letters, digits, '-', '_' and '.', and begin "
            f"with a letter or digit, but got '{name}'."
        )
    return data_folder() / f"{name}{SUFFIX}"


def prepare(
    name: str,
    path: Path | None = None,
    *,
    source: str | None = None,
    size: int | None = DEFAULT_SIZE,
    levels: Sequence[str] | None = None,
    skip_bad: bool = False,
    force: bool = False,
    progress: Progress = silent,
) -> Report:
    """Reads a data set once and writes its store.

    Args:
        name: Of the store.
        path: The folder of images, a table, or the folder or archive of official files.
        source: What reads them; if not given, the one called `name`, or else what fits the path.
        size: Largest short side in pixels, at least 1; None keeps the original sizes.
        levels: Names of the levels of one's own images, coarsest first: what folders stand for, or
            columns of a table.
        skip_bad: Go on without what cannot be used.
        force: Replace a store of that name.
        progress: Is told how far unpacking, preparing, writing and checking are.
    """
    target = store_path(name)
    reader = _source_of(name, path, source)
    if levels is not None:
        _check_levels(name, reader, levels)
    with locked(_lock(target)):
        if target.exists() and not force:
            raise DatasetError(f"The data '{name}' is prepared already; replace it with --force.")
        return _write(
            target,
            reader,
            path,
            size,
            levels=None if levels is None else tuple(levels),
            skip_bad=skip_bad,
            progress=progress,
        )


def _check_levels(name: str, source: Source, levels: Sequence[str]) -> None:
    if not source.is_own:
        own = f": {', '.join(source.level_names)}" if source.level_names else ""
        raise DatasetError(
            f"Only the levels of own images are named with --levels, but '{name}' is read as "
            f"{source.name}, which has its own{own}; leave --levels out."
        )
    check_level_names(levels)


def _source_of(name: str, path: Path | None, given: str | None = None) -> Source:
    """The source that is given or of that name, else the kind that the path asks for."""
    if given or name in available_sources():
        source = load_source(given or name)
    elif path is None or path.is_dir():
        source = load_source("huggingface" if path and metadata_files(path) else "folder")
    elif path.suffix.lower() in _TABLE_SUFFIXES or not path.exists():
        source = load_source("table")
    else:
        raise DatasetError(
            f"Data come from a folder, a .csv or a .parquet file, but {path} is none; unpack an "
            "archive first, or say with --source which data set's official files it holds."
        )
    if source.needs_path and path is None:
        where = f" ({source.home} says how to get them)" if source.home else ""
        raise DatasetError(f"The data '{name}' come from files{where}; name them with --from PATH.")
    if path is not None and not source.needs_path:
        raise DatasetError(f"The data '{name}' are made without files; leave --from away.")
    if path is not None and not path.exists():
        raise DatasetError(f"The data '{name}' cannot be read: {path} does not exist.")
    return source


def _write(
    target: Path,
    source: Source,
    path: Path | None,
    size: int | None,
    *,
    levels: tuple[str, ...] | None = None,
    skip_bad: bool = False,
    progress: Progress = silent,
) -> Report:
    provenance: dict[str, object] = {
        "source": source.name,
        "from": str(path.resolve()) if path else None,
        "size": size or "original",
        "hsearch": version("hsearch"),
        "pillow": version("pillow"),
    }
    notes: list[str] = []
    scratch = target.with_name(f".{target.stem}.unpacked")
    try:
        with source.open(path, scratch, progress, levels) as found:
            report = write_store(
                target,
                target.stem,
                _without_notes(found, notes),
                size=size,
                level_names=source.level_names,
                provenance=provenance,
                skip_bad=skip_bad,
                keep_singles=source.home is not None,
                progress=progress,
            )
    except BadFilesError as error:
        raise BadFilesError(_with_notes(error.report, notes)) from None
    if source.total not in (None, report.images):
        total = f"{source.total:,}"
        notes.append(f"prepared {report.images:,} images; the published data set has {total}")
    return _with_notes(report, notes)


def _with_notes(report: Report, notes: list[str]) -> Report:
    return replace(report, notes=(*notes, *report.notes))


def _without_notes(found: Found, notes: list[str]) -> Iterator[Record | Problem | LevelNames]:
    """Yields the rest; notes are put aside."""
    for item in found:
        if isinstance(item, Note):
            notes.append(item.text)
        else:
            yield item


def _lock(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _names() -> set[str]:
    built_in = (name for name in available_sources() if not load_source(name).needs_path)
    return {*prepared_names(), *built_in}

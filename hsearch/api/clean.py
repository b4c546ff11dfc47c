"""What hsearch has put on the disk, what each part is for, and removing what is named.

An item is what can be named: `pixels`, `study:NAME`, `run:NAME`. It says what removing it would
cost. Nothing that a process has open, or that a driver may need to go on, is removed; and no record
of a study, unless it is named as such.
"""

import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hsearch.addresses import Address, Place
from hsearch.data.caches import Cache, caches
from hsearch.data.library import data_folder, prepared_names, shared_features, store_path
from hsearch.data.objects import Objects
from hsearch.data.places import children, remove
from hsearch.data.sources import available_sources, load_source
from hsearch.disk import FileSize, file_sizes, freed_bytes, open_files, total_bytes
from hsearch.errors import ConfigError, did_you_mean
from hsearch.scratch import left_scratch
from hsearch.search.driver import is_near
from hsearch.search.removal import (
    StudyState,
    delete_study,
    held_study,
    study_state,
    study_states,
)
from hsearch.search.reproduced import PROTOCOLS
from hsearch.search.storage import storage_file
from hsearch.tracking.local_files import local_files, other_experiments
from hsearch.words import plural

CACHES = "caches"
STUDIES = "studies"
RUNS = "runs"
GROUPS = {CACHES: "", STUDIES: "study:", RUNS: "run:"}
"""Names of several items at once, and how the names of theirs begin."""

ALWAYS_KNOWN = ("pixels", "features", "copies", "weights", "scratch", "shared-features", "mlflow")
"""Names that may be given where there is nothing of the kind, as every night by a schedule."""

RUNS_FOLDER = Path("runs")
"""Where `hsearch train` puts its runs by default."""

_NETWORKS = (".safetensors", ".tmp")
_STUDY_FILE = ".study"


@dataclass(frozen=True)
class Item:
    """Something that can be removed by its name.

    Attributes:
        name: By which it is named.
        about: What it holds.
        lost: What is lost with it.
        files: That would be removed.
        stays: Other files of the same place, which are needed to go on or small.
        place: The folder that holds them.
        in_use: By whom; None if by nobody.
        is_cache: Whether it comes again by itself.
        cleanup: Removes the files, and whatever else belongs to the item.
        check: Raises a ConfigError if the item must not be removed; slow, so only what is named is
            asked.
    """

    name: str
    about: str
    lost: str
    files: tuple[FileSize, ...]
    place: Place
    in_use: str | None
    is_cache: bool
    cleanup: Callable[[], None] = field(compare=False, repr=False)
    stays: tuple[FileSize, ...] = ()
    check: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)

    @property
    def num_bytes(self) -> int:
        """What it takes on the disk."""
        return total_bytes([*self.files, *self.stays])


@dataclass(frozen=True)
class Where:
    """Where to look.

    Attributes:
        out: Folder or address of the studies' files.
        storage: Of the records: an SQLite file or a URL.
        tracking_uri: MLflow's address, see `checked_uri`; None for no MLflow.
    """

    out: Place
    storage: str
    tracking_uri: str | None


@dataclass(frozen=True)
class Usage:
    """All that hsearch has put on the disk.

    Attributes:
        items: What can be removed by its name, of every kind the largest first.
        records: The studies that the storage has a record of, by name.
        record_files: The file of the records, if it is one.
    """

    items: tuple[Item, ...]
    records: dict[str, StudyState]
    record_files: tuple[FileSize, ...]

    @property
    def num_bytes(self) -> int:
        """What all of it takes; what is in two items at once counts once."""
        files = [file for item in self.items for file in (*item.files, *item.stays)]
        return total_bytes([*self.record_files, *files])

    @property
    def shared_bytes(self) -> int:
        """What is in two items at once, and freed only with both: networks that MLflow has too."""
        files = [file for item in self.items for file in item.files]
        return freed_bytes(files) - sum(freed_bytes(item.files) for item in self.items)


def usage(where: Where) -> Usage:
    """Returns all that hsearch has put on the disk, and who uses it."""
    database = storage_file(where.storage)
    has_records = database is None or database.is_file()
    states = {state.name: state for state in study_states(where.storage)} if has_records else {}
    opened = open_files([data_folder(), RUNS_FOLDER, *_local(where.out), *_mlflow_paths(where)])
    kinds = [
        _cache_items(states, opened),
        _scratch_items(),
        _data_items(opened),
        _study_items(where, states, opened),
        _run_items(opened),
        _mlflow_items(where, states, opened),
    ]
    items = [
        item
        for kind in kinds
        for item in sorted(kind, key=lambda each: (-each.num_bytes, each.name))
    ]
    return Usage(tuple(items), states, tuple(_record_files(database)))


def _record_files(database: Path | None) -> Iterator[FileSize]:
    if database is not None:
        for ending in ("", "-wal", "-shm"):
            yield from file_sizes(database.with_name(f"{database.name}{ending}"))


def chosen(found: Usage, names: Sequence[str], where: Where) -> tuple[list[Item], list[Item]]:
    """Returns the items that are named, and those that a named group has but somebody uses.

    Args:
        found: What there is.
        names: Of items, of `GROUPS`, or `record:STUDY`; of `ALWAYS_KNOWN` there may be none.
        where: Where it was found.

    Raises:
        ConfigError: A name is not known, or what it names is in use or of others.
    """
    items = {item.name: item for item in found.items}
    wanted: dict[str, Item] = {}
    left: dict[str, Item] = {}
    for name in dict.fromkeys(names):
        if name in GROUPS:
            for item in _of_group(name, found.items):
                (left if item.in_use else wanted)[item.name] = item
            continue
        named = _record_item(name, found, where) or items.get(name)
        if named is None and name in ALWAYS_KNOWN:
            continue  # there is nothing of it now
        if named is None:
            raise ConfigError(_unknown(name, found))
        if named.in_use:
            raise _in_use(name, named.in_use)
        named.check()
        wanted[name] = named
    for name in [each for each in wanted if each.startswith("record:")]:
        wanted.pop(f"study:{name.removeprefix('record:')}", None)  # goes with the record
    return list(wanted.values()), list(left.values())


def clean(items: Sequence[Item]) -> int:
    """Removes items, and returns how many bytes that has freed."""
    files = [file for item in items for file in item.files]
    for item in items:
        item.cleanup()
    return freed_bytes(file for file in files if not _is_there(file))


def _of_group(name: str, items: Iterable[Item]) -> list[Item]:
    begins = GROUPS[name]
    return [each for each in items if (each.name.startswith(begins) if begins else each.is_cache)]


def _unknown(name: str, found: Usage) -> str:
    kind = name.partition(":")[0]
    if name in ("study", "run", "data", "record", "records"):
        kind = kind.removesuffix("s")
        return f"Of several things of a kind one is named: {kind}:NAME, but got '{name}'."
    records = [f"record:{each}" for each in found.records]
    valid = {*(item.name for item in found.items), *records, *GROUPS, *ALWAYS_KNOWN}
    return f"There is nothing called '{name}' to remove; {did_you_mean(name, valid)}"


def _in_use(name: str, user: str) -> ConfigError:
    kind, _, study = name.partition(":")
    how = f" with `hsearch stop {shlex.quote(study)}`" if kind in ("study", "record") else ""
    return ConfigError(
        f"What is in use is not removed, but {name} is used by {user}; wait for it, or end it{how}."
    )


def _is_there(file: FileSize) -> bool:
    return not file.path.startswith(("s3:", "gs:", "file:")) and Path(file.path).exists()


def _used_by(opened: dict[str, int], *paths: Path) -> str | None:
    """Who has one of the files, or something below one of the folders, open."""
    for path in paths:
        real = str(path.resolve())
        for name, pid in opened.items():
            if name == real or name.startswith(f"{real}/"):
                return f"process {pid}"
    return None


def _local(*places: Place) -> list[Path]:
    return [place for place in places if isinstance(place, Path)]


def _cache_items(states: dict[str, StudyState], opened: dict[str, int]) -> Iterator[Item]:
    drivers = [driver for state in states.values() for driver in state.drivers]
    here = next(filter(is_near, drivers), None)  # may want any of them at the next moment
    for cache in caches():
        if paths := cache.paths():
            yield Item(
                name=cache.name,
                about=cache.about,
                lost=cache.lost,
                files=tuple(size for path in paths for size in file_sizes(path)),
                place=cache.folder,
                in_use=str(here) if here else _used_by(opened, cache.folder),
                is_cache=True,
                cleanup=_cache_remover(cache),
            )
    if (shared := shared_features()) is not None and (sizes := _sizes(shared)):
        yield Item(
            name="shared-features",
            about="features that machines have computed for each other",
            lost="nothing: computed again by machines that want them",
            files=_files(shared, sizes),
            place=shared,
            in_use=str(drivers[0]) if drivers else None,
            is_cache=True,
            cleanup=lambda: remove(shared),
        )


def _cache_remover(cache: Cache) -> Callable[[], None]:
    def cleanup() -> None:
        with cache.held() as free:
            if not free:
                raise _in_use(cache.name, "a process that writes to it")
            for path in cache.paths():
                _remove_path(path)

    return cleanup


def _scratch_items() -> Iterator[Item]:
    if folders := left_scratch():
        yield Item(
            name="scratch",
            about="what killed processes have left, Ray's files among it",
            lost="nothing",
            files=tuple(size for folder in folders for size in file_sizes(folder)),
            place=folders[0].parent,
            in_use=None,
            is_cache=True,
            cleanup=_remover(folders),
        )


def _data_items(opened: dict[str, int]) -> Iterator[Item]:
    for name in prepared_names():
        path = store_path(name)
        made = name in available_sources() and not load_source(name).needs_path
        again = "nothing: made again at the next use"
        yield Item(
            name=f"data:{name}",
            about="prepared images",
            lost=again if made else "the images, to be prepared again from the original files",
            files=tuple(file_sizes(path)),
            place=path.parent,
            in_use=_used_by(opened, path),
            is_cache=False,
            cleanup=_remover([path]),
        )


def _run_items(opened: dict[str, int]) -> Iterator[Item]:
    for name in children(RUNS_FOLDER):
        folder = RUNS_FOLDER / name
        if (folder / "job.json").is_file():
            yield Item(
                name=f"run:{name}",
                about="a training of `hsearch train`",
                lost="its network and result; the same command trains it again",
                files=tuple(file_sizes(folder)),
                place=folder,
                in_use=_used_by(opened, folder),
                is_cache=False,
                cleanup=_remover([folder]),
            )


def _study_items(
    where: Where, states: dict[str, StudyState], opened: dict[str, int]
) -> Iterator[Item]:
    for name in children(where.out):
        place = where.out / name
        sizes = _sizes(place)
        if _STUDY_FILE not in sizes:
            continue  # not of hsearch
        state = states.get(name)
        user = _used_by(opened, *_local(place))
        if state is None or state.identity != _identity(place):
            yield Item(
                name=f"study:{name}",
                about="files of a study whose record is in another storage, or in none",
                lost="its networks, and scores query by query",
                files=_files(place, sizes),
                place=place,
                in_use=user,
                is_cache=False,
                cleanup=_place_remover(place),
            )
            continue
        gone = {each: size for each, size in sizes.items() if _is_over(each, state)}
        stay = {each: size for each, size in sizes.items() if each not in gone}
        unfinished = ", and what unfinished ones need to go on, which stays"
        yield Item(
            name=f"study:{name}",
            about=f"networks of its best trial{_reproductions(state)}"
            + (unfinished if any(each.endswith(_NETWORKS) for each in stay) else ""),
            lost="these networks, as for `look` and `evaluate`; record and scores stay",
            files=_files(place, gone),
            place=place,
            in_use=str(state.drivers[0]) if state.drivers else user,
            is_cache=False,
            cleanup=_network_remover(where, name),
            stays=_files(place, stay),
        )


def _network_remover(where: Where, name: str) -> Callable[[], None]:
    """Removes what is over by then: a person may have thought for a while."""

    def cleanup() -> None:
        state = study_state(name, where.storage)
        if state.drivers:
            raise _in_use(f"study:{name}", str(state.drivers[0]))
        place = where.out / name
        for each in _sizes(place):
            if _is_over(each, state):
                _remove_file(place, each)

    return cleanup


def _reproductions(state: StudyState) -> str:
    runs = sum(state.runs.values())
    return f" and of {plural(runs, 'reproduction')}" if runs else ""


def _is_over(name: str, state: StudyState) -> bool:
    """Whether a file of a study's folder is a network that nothing needs to go on."""
    if not name.endswith(_NETWORKS):
        return False
    folder, *below = name.split("/")
    if folder.startswith("trial-"):
        return _number(folder) not in state.unfinished
    protocol = next((each for each in PROTOCOLS if folder == f"reproduce-{each}"), None)
    if protocol is None or len(below) < 2:
        return True
    return _number(below[0]) not in state.unfinished_runs.get(protocol, frozenset())


def _number(name: str) -> int | None:
    """The number at the end of `trial-0007` or `run-003`."""
    text = name.rpartition("-")[2]
    return int(text) if text.isdecimal() else None


def _record_item(name: str, found: Usage, where: Where) -> Item | None:
    """The record of a study with all its files, which nobody gets without naming it so."""
    kind, _, study = name.partition(":")
    state = found.records.get(study)
    if kind != "record" or state is None:
        return None
    place = where.out / study
    own = _identity(place) == state.identity and state.identity is not None
    runs = _reproductions(state)

    def cleanup() -> None:
        with held_study(study, where.storage):
            if own:
                _place_remover(place)()
            delete_study(study, where.storage)

    return Item(
        name=name,
        about=f"the record of {plural(state.trials, 'trial')}{runs}, and all files of the study",
        lost="all that the study has found; what MLflow shows of it stays",
        files=_files(place, _sizes(place)) if own else (),
        place=place,
        in_use=str(state.drivers[0]) if state.drivers else None,
        is_cache=False,
        cleanup=cleanup,
    )


def _mlflow_paths(where: Where) -> list[Path]:
    return [] if where.tracking_uri is None else local_files(where.tracking_uri)


def _mlflow_items(
    where: Where, states: dict[str, StudyState], opened: dict[str, int]
) -> Iterator[Item]:
    paths, uri = _mlflow_paths(where), where.tracking_uri
    if not paths or uri is None:
        return
    driver = next((state.drivers[0] for state in states.values() if state.drivers), None)

    def check() -> None:
        if others := other_experiments(uri):
            raise ConfigError(
                f"Only what hsearch has written is removed, but {paths[0]} has runs of others "
                f"({', '.join(others)}); delete runs in its UI, and then run `mlflow gc`."
            )

    def cleanup() -> None:
        _remover(paths)()
        with suppress(OSError):  # the folder has something of others, or is not there
            (paths[0].parent / "mlruns").rmdir()

    yield Item(
        name="mlflow",
        about=f"what MLflow shows: {paths[0].name} and its artifacts",
        lost="pages and pictures; the same `tune` and `reproduce` commands write them again",
        files=tuple(size for path in paths for size in file_sizes(path)),
        place=paths[0].parent,
        in_use=str(driver) if driver else _used_by(opened, *paths),
        is_cache=False,
        cleanup=cleanup,
        check=check,
    )


def _sizes(place: Place) -> dict[str, int]:
    """The length of every file below a folder, by its name there."""
    if isinstance(place, Address):
        return Objects(place).sizes()
    found = file_sizes(place) if place.is_dir() else []
    return {Path(file.path).relative_to(place).as_posix(): file.num_bytes for file in found}


def _files(place: Place, sizes: dict[str, int]) -> tuple[FileSize, ...]:
    if isinstance(place, Path):
        return tuple(size for name in sizes for size in file_sizes(place / name))
    named = [(str(place / name), size) for name, size in sizes.items()]
    return tuple(FileSize(path, size, (path,)) for path, size in named)


def _identity(place: Place) -> str | None:
    """Which of all studies of its name a folder belongs to."""
    if isinstance(place, Address):
        content = Objects(place).read(_STUDY_FILE)
    else:
        file = place / _STUDY_FILE
        content = file.read_bytes() if file.is_file() else None
    return None if content is None else content.decode(errors="replace")


def _remover(paths: Iterable[Path]) -> Callable[[], None]:
    def cleanup() -> None:
        for path in paths:
            _remove_path(path)

    return cleanup


def _place_remover(place: Place) -> Callable[[], None]:
    return _remover([place]) if isinstance(place, Path) else lambda: remove(place)


def _remove_file(place: Place, name: str) -> None:
    if isinstance(place, Path):
        (place / name).unlink(missing_ok=True)
    else:
        Objects(place).remove(name)


def _remove_path(path: Path) -> None:
    """Removes a file or folder; one that may not be removed is an error, unlike in `remove`."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

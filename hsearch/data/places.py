"""Folders wherever they are: on this machine, or at an address."""

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from hsearch.addresses import Place
from hsearch.data.objects import Objects
from hsearch.errors import ConfigError
from hsearch.files import write_whole
from hsearch.scratch import scratch


def absolute(place: Place) -> Place:
    """Returns the place as it is right from every folder."""
    return place.resolve() if isinstance(place, Path) else place


def children(place: Place) -> list[str]:
    """Returns the names of what lies in a folder, sorted; none where there is no such folder."""
    if isinstance(place, Path):
        return sorted(path.name for path in place.iterdir()) if place.is_dir() else []
    return Objects(place).children()


def remove(place: Place) -> None:
    """Removes a folder with all that is in it, if it is there."""
    if isinstance(place, Path):
        shutil.rmtree(place, ignore_errors=True)
    else:
        Objects(place).clear()


def read_or_write(place: Place, name: str, content: bytes) -> bytes:
    """Returns what a small file of a folder holds; one that is not there is written first."""
    if isinstance(place, Path):
        place.mkdir(parents=True, exist_ok=True)
        if not (place / name).exists():
            write_whole(place / name, content)
        return (place / name).read_bytes()
    objects = Objects(place)
    if (found := objects.read(name)) is None:
        objects.put(name, content)
    return content if found is None else found


def check_writable(place: Place) -> None:
    """Raises if nothing can be written to `--out`; leaves nothing there."""
    if not isinstance(place, Path):
        objects, name = Objects(place), f".written-{secrets.token_hex(4)}"
        objects.put(name, b"")
        objects.remove(name)
        return
    try:
        with tempfile.TemporaryDirectory(dir=_nearest_folder(place)):
            pass
    except OSError as error:
        raise ConfigError(
            f"`--out` must be a folder that can be written to, but {place} gave: "
            f"{error.strerror}; name another one."
        ) from None


@contextmanager
def local_copy(place: Place, pattern: str = "*") -> Iterator[Path]:
    """Gives a folder during the context: the place itself, or a copy of one elsewhere.

    Args:
        place: Of the folder.
        pattern: Which files the copy has, by their names below the folder.
    """
    if isinstance(place, Path):
        yield place
        return
    objects = Objects(place)
    with scratch("copy") as folder:
        for name in objects.names():
            if fnmatch(name, pattern):
                objects.fetch(name, folder / name)
        yield folder


def _nearest_folder(path: Path) -> Path:
    """Returns the path, or as much of it as exists."""
    return path if path.exists() or path == path.parent else _nearest_folder(path.parent)

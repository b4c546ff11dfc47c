"""The caches of this machine: files that are made again, or fetched again, when they are wanted."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hsearch.addresses import STORE_SUFFIX
from hsearch.data.library import data_folder, features_folder, pixels_folder
from hsearch.files import locked_if_free

_LEFT = ".*.tmp"  # by processes that were killed


@dataclass(frozen=True)
class Cache:
    """A folder of files that nobody would miss for long.

    Attributes:
        name: What people call it.
        folder: Where its files lie.
        patterns: What its files, or folders of half-made ones, are called.
        about: What it holds.
        lost: What removing it costs.
    """

    name: str
    folder: Path
    patterns: tuple[str, ...]
    about: str
    lost: str

    def paths(self) -> list[Path]:
        """Returns its files, and folders of half-made ones, sorted."""
        found = {path for pattern in self.patterns for path in self.folder.glob(pattern)}
        return sorted(path for path in found if path.name != ".lock")

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Keeps others from changing the cache; yields whether nobody was about to."""
        if not self.folder.is_dir():
            yield True
            return
        with locked_if_free(self.folder / ".lock") as free:
            yield free


def caches() -> tuple[Cache, ...]:
    """Returns all caches of the data folder."""
    folder = data_folder()
    return (
        Cache(
            "pixels",
            pixels_folder(),
            ("*.pixels", _LEFT),
            "decoded images, shared by all trainings of this machine",
            "nothing: decoded again by the next training that wants them",
        ),
        Cache(
            "features",
            features_folder(),
            ("*.features", "*.parts", _LEFT),
            "what frozen backbones make of the images",
            "nothing: computed again by the next training that wants them",
        ),
        Cache(
            "copies",
            folder / "remote",
            (f"*{STORE_SUFFIX}", _LEFT),
            "copies of data that lie at an address",
            "nothing: fetched again when the data are opened",
        ),
        Cache(
            "weights",
            folder / "weights",
            ("*", _LEFT),
            "copies of pretrained weights that lie at an address",
            "nothing: fetched again when a training begins with them",
        ),
    )

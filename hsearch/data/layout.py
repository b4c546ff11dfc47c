"""The official files of a data set: in a folder, below it, or in its archives."""

import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hsearch.data.archives import is_archive, unpack
from hsearch.data.images import SUFFIXES
from hsearch.data.progress import Progress, silent
from hsearch.data.records import Note, Problem, Record
from hsearch.errors import DatasetError

Found = Iterator[Record | Problem | Note]
"""What a source yields."""


@dataclass
class Layout:
    """Finds and reads the files of one data set.

    Archives are unpacked only when a file is asked for that lies nowhere else.

    Attributes:
        path: What the user gave: a folder or an archive.
        name: Of the data set.
        home: Where its owners say to get it.
    """

    path: Path
    name: str
    home: str
    _scratch: Path = field(repr=False)
    _progress: Progress = field(default=silent, repr=False)
    _roots: list[Path] = field(default_factory=list, repr=False)
    _packed: list[Path] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if is_archive(self.path):
            self._packed = [self.path]
        elif self.path.is_dir():
            self._roots = [self.path.resolve()]
            self._packed = _archives(self.path)
        else:
            raise DatasetError(
                f"The data '{self.name}' come from a folder or an archive (.zip, .tar, .tgz), but "
                f"{self.path} is neither."
            )

    def find(self, *names: str) -> Path | None:
        """Returns the first of the relative paths that exists; None if none does."""
        while True:
            for name in names:
                for folder in self._folders():
                    if (folder / name).exists():
                        return folder / name
            if not self._packed:
                return None
            self._packed = _archives(self.unpacked(self._packed.pop(0))) + self._packed

    def require(self, *names: str, inside: str) -> list[Path]:
        """Returns all of the relative paths.

        Args:
            names: Each a path, or several ways to call the same thing, parted by `|`.
            inside: The official archives or folders that hold them, for the message.

        Raises:
            DatasetError: Names every path that is missing, and where it comes from.
        """
        found = {name: self.find(*name.split("|")) for name in names}
        missing = [name.replace("|", " or ") for name, path in found.items() if path is None]
        if missing:
            raise DatasetError(
                f"The data '{self.name}' need {', '.join(missing)} (of {inside}), but {self.path} "
                f"has them not; {self.home} says how to get them."
            )
        return [path for path in found.values() if path is not None]

    def unpacked(self, archive: Path) -> Path:
        """Returns the folder that an archive was unpacked to, which lasts as long as the layout."""
        folder = self._scratch / f"{len(self._roots)}-{archive.name}"
        folder.mkdir(parents=True)
        unpack(archive, folder, self._progress)
        self._roots.append(folder.resolve())
        return self._roots[-1]

    def checked(self, found: Found) -> Found:
        """Yields what a source found without images outside, and last a note on unlisted ones."""
        listed: dict[Path, set[str]] = defaultdict(set)
        for item in found:
            if isinstance(item, Record) and isinstance(item.image, Path):
                if not self._is_inside(item.image):
                    yield Problem(item.id, "path out of the data's folder")
                    continue
                listed[item.image.parent].add(item.image.name)
            elif isinstance(item, Note):
                for image in item.images:
                    listed[image.parent].add(image.name)
            yield item
        others = [
            folder / name
            for folder, names in listed.items()
            for name in sorted(_images(folder) - names)
        ]
        if others:
            yield Note(f"left out {len(others)} images that are not listed, such as {others[0]}")

    def _is_inside(self, path: Path) -> bool:
        if "\0" in str(path):
            return False
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(root) for root in self._roots)

    def _folders(self) -> Iterator[Path]:
        """Yields the roots and the folders directly in them, as archives have one at their top."""
        for root in self._roots:
            yield root
            yield from _subfolders(root)


@contextmanager
def open_layout(
    path: Path, name: str, home: str, scratch: Path, progress: Progress = silent
) -> Iterator[Layout]:
    """Opens the files of a data set.

    Args:
        path: A folder or an archive.
        name: Of the data set.
        home: Where its owners say to get it.
        scratch: A folder for what is unpacked from archives, removed at the end; what a killed
            process left there is removed first.
        progress: Is told how far archives are unpacked.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        yield Layout(path, name, home, scratch, progress)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _subfolders(folder: Path) -> list[Path]:
    return sorted(Path(entry.path) for entry in os.scandir(folder) if entry.is_dir())


def _archives(folder: Path) -> list[Path]:
    """The archives in a folder and in the folders directly in it."""
    folders = [folder, *_subfolders(folder)]
    return [path for each in folders for path in sorted(each.iterdir()) if is_archive(path)]


def _images(folder: Path) -> set[str]:
    names = os.listdir(folder) if folder.is_dir() else []
    return {name for name in names if name.lower().endswith(SUFFIXES)}

"""The official files of a data set: in a folder, below it, or in its archives."""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hsearch.data.archives import is_archive, stem, unpack
from hsearch.data.images import SUFFIXES
from hsearch.data.progress import Progress, silent
from hsearch.data.records import LevelNames, Note, Problem, Record
from hsearch.errors import DatasetError

Found = Iterator[Record | Problem | Note | LevelNames]
"""What a source yields."""

OUTSIDE = "path out of the data's folder"
"""The reason why a listed file is not read."""

_Places = dict[Path, Path]
"""What is found under a name: by the base folder that it is relative to."""


@dataclass
class Layout:
    """Finds and reads the files of one data set.

    They lie in a base folder: the one given or a folder directly in it, and where an archive is
    unpacked to or a folder directly in that. Archives are unpacked only while something is missing,
    those first whose names tell of it.

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
    _kept: set[str] = field(default_factory=set, repr=False)
    _refused: list[str] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if self.path.is_dir():
            self._roots = [self.path.resolve()]
            self._packed = _archives(self.path)
        elif is_archive(self.path) and self.path.is_file():
            self._packed = [self.path]
        else:
            raise DatasetError(
                f"The data '{self.name}' come from a folder or an archive (.zip, .tar, .tgz), but "
                f"{self.path} is neither."
            )

    def keep_packed(self, archive: str) -> None:
        """Lets an archive of that name count as a file; if it was given, others lie beside it."""
        self._kept.add(archive)
        self._packed = [path for path in self._packed if path.name != archive]
        if self.path.name == archive and not self._roots:
            self._roots = [self.path.absolute().parent.resolve()]

    def find(self, *names: str, inside: str = "", everywhere: bool = False) -> Path | None:
        """Returns the first of the relative paths that exists; None if none does.

        Args:
            names: The paths.
            inside: The official archives that may hold them.
            everywhere: Whether they are looked for in all archives; by default only in the one
                given, in the official ones and in those that are called like a part of the names.
        """
        while True:
            for name in names:
                if places := self._places(name, self._bases()):
                    return next(iter(places.values()))
            if not self._unpack_next(names, inside, everywhere=everywhere):
                return None

    def require(
        self,
        *names: str,
        inside: str,
        homes: Mapping[str, str] | None = None,
        own: str = "",
        others: Collection[str] = (),
    ) -> list[Path]:
        """Returns all of the relative paths, of one base folder if one has them all.

        Args:
            names: Each a path, or several ways to call the same thing, parted by `|`.
            inside: The official archives or folders that hold them, for the message.
            homes: Of those that come from elsewhere.
            own: The official name of the base folder; where one is called so, no other counts.
            others: The official names of the base folders of other data sets, which never count.

        Raises:
            DatasetError: Names every path that is missing, and where it comes from; or a path that
                is there twice, while no folder has everything.
        """
        if own:
            self.find(own)  # unpacks the archive of that name
        while True:
            bases = [base for base in self._bases() if base.name not in others]
            bases = [base for base in bases if base.name == own] or bases
            found = {name: self._places(name, bases) for name in names}
            missing = [name for name, places in found.items() if not places]
            if not missing:
                return self._decided(found)
            if not self._unpack_next(missing, inside, everywhere=True):
                raise self.lack(missing, inside, homes)

    def lack(
        self, missing: Iterable[str], inside: str, homes: Mapping[str, str] | None = None
    ) -> DatasetError:
        """Returns the error that names missing paths; its arguments are those of `require`."""
        known = homes or {}
        named = [
            name.replace("|", " or ") + (f" (see {known[name]})" if name in known else "")
            for name in missing
        ]
        it = "it" if len(named) == 1 else "them"
        return DatasetError(
            f"The data '{self.name}' need {', '.join(named)} (of {inside}), but {self.path} lacks "
            f"{', and '.join([it, *self._refused])}; {self.home} says how to get {it}."
        )

    def _decided(self, found: Mapping[str, _Places]) -> list[Path]:
        """The places to take: of a base that has all, else of the only base that has one."""
        whole = set.intersection(*(set(places) for places in found.values()))
        paths = []
        for name, every in found.items():
            places = {base: path for base, path in every.items() if not whole or base in whole}
            first, *more = {os.path.realpath(path): path for path in places.values()}.values()
            if more and self._roots[0] not in places:
                raise DatasetError(
                    f"The files of '{self.name}' must lie in one folder, but "
                    f"{name.partition('|')[0]} is in several, such as {first} and {more[0]}; name "
                    "the right folder with --from."
                )
            paths.append(places.get(self._roots[0], first))
        return paths

    def _places(self, name: str, bases: Iterable[Path]) -> _Places:
        """What is there under a name, or under the first of several that is."""
        places = {}
        for base in bases:
            paths = (base / each for each in name.split("|"))
            path = next((path for path in paths if path.is_file() or path.is_dir()), None)
            if path:
                places[base] = path
        return places

    def _unpack_next(self, names: Iterable[str], inside: str, *, everywhere: bool) -> bool:
        """Unpacks the archive that most likely has one of the names; False if none is left."""
        parts = {part for name in names for part in re.split(r"[/|]", name)}

        def rank(archive: Path) -> int:
            if archive == self.path or stem(archive) in (*parts, self.name):
                return 0
            return 1 if archive.name in inside else 2

        archive = min(self._packed, key=rank, default=None)
        if archive is None or (rank(archive) == 2 and not everywhere):
            return False
        self._packed.remove(archive)
        try:
            inner = _archives(self.unpacked(archive))
        except DatasetError as error:
            if rank(archive) < 2:
                raise
            reason = str(error).partition(";")[0]
            self._refused.append(reason[0].lower() + reason[1:])
            return True
        self._packed = [path for path in inner if path.name not in self._kept] + self._packed
        return True

    def unpacked(self, archive: Path) -> Path:
        """Returns the folder that an archive was unpacked to, which lasts as long as the layout."""
        folder = self._scratch / str(len(self._roots)) / stem(archive)
        try:
            unpack(archive, folder, self._progress)
        except DatasetError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._roots.append(folder.resolve())
        return self._roots[-1]

    def checked(self, found: Found) -> Found:
        """Yields what a source found without images outside, and last a note on unlisted ones."""
        listed: dict[Path, set[str]] = defaultdict(set)
        for item in found:
            if isinstance(item, Record) and isinstance(item.image, Path):
                if not self.holds(item.image):
                    yield Problem(item.id, OUTSIDE)
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

    def holds(self, path: Path) -> bool:
        """Returns whether a path, links followed, lies inside the data's folders."""
        if "\0" in str(path):
            return False
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(root) for root in self._roots)

    def _bases(self) -> Iterator[Path]:
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

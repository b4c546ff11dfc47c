"""What files take on the disk, what removing them frees, and which processes have them open."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileSize:
    """A file and what it takes.

    Attributes:
        path: Of the file, or its address.
        num_bytes: Its length.
        identity: Tells the files of a machine apart; a second name of a file has the same.
        links: How many names the file has.
    """

    path: str
    num_bytes: int
    identity: tuple[object, ...]
    links: int = 1


def file_sizes(path: Path) -> list[FileSize]:
    """Returns a file, or all files below a folder, sorted; links to elsewhere are not followed."""
    if not path.is_dir() or path.is_symlink():
        return [size] if (size := _size(str(path))) is not None else []
    found = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return [size for name in sorted(found) if (size := _size(name)) is not None]


def _size(path: str) -> FileSize | None:
    """What a file takes; None if it is gone."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return FileSize(path, found.st_size, (found.st_dev, found.st_ino), found.st_nlink)


def total_bytes(files: Iterable[FileSize]) -> int:
    """Returns what files take together; one with several names counts once."""
    return sum({file.identity: file.num_bytes for file in files}.values())


def freed_bytes(files: Iterable[FileSize]) -> int:
    """Returns what removing files frees: a file stays while another name of it does."""
    distinct = {file.path: file for file in files}.values()
    names = Counter(file.identity for file in distinct)
    return total_bytes(file for file in distinct if names[file.identity] >= file.links)


def open_files(folders: Iterable[Path]) -> dict[str, int]:
    """Returns which of some files, or files below folders, other processes have open or mapped.

    Returns:
        The number of one such process by the path of the file, as far as this process may see.
    """
    roots = tuple(os.path.realpath(folder) for folder in folders)
    below = tuple(f"{root}{os.sep}" for root in roots)
    found: dict[str, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        pid = int(process.name)
        if pid != os.getpid():
            opened = [n for n in _opened_by(process) if n in roots or n.startswith(below)]
            found |= dict.fromkeys(opened, pid)
    return found


def _opened_by(process: Path) -> Iterator[str]:
    """Yields the paths of what a process has open or mapped; none where that may not be seen."""
    with suppress(OSError):
        for link in (process / "fd").iterdir():
            with suppress(OSError):
                yield os.readlink(link)
    with suppress(OSError, UnicodeDecodeError):
        for line in (process / "maps").read_text(encoding="utf-8").splitlines():
            fields = line.split(maxsplit=5)  # of which the path is the last
            if len(fields) == 6:
                yield fields[5]

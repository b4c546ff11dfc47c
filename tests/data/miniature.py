"""Official layouts of data sets with a few small images, and what can be wrong with them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hsearch.data.records import Report
from tests.data.toy import save


@dataclass(frozen=True)
class Fault:
    """An edit of one file, and what the sentence about it says (a regular expression)."""

    file: str
    old: str | bytes
    new: str | bytes
    message: str

    def apply(self, root: Path) -> None:
        path = root / self.file
        old, new = (x.encode() if isinstance(x, str) else x for x in (self.old, self.new))
        assert old in path.read_bytes(), f"{self.file} has no {old!r}"
        path.write_bytes(path.read_bytes().replace(old, new, 1))


@dataclass(frozen=True)
class Miniature:
    """The files of one data set in the real formats.

    Attributes:
        name: Of the data set, as `hsearch data prepare` knows it.
        build: Writes the files into an empty folder.
        images: How many the store has.
        classes: How many the store has; of multi-label data, how many tags.
        needed: Paths without which there is no data set, as the message names them.
        texts: Text files among them.
        listed: An image file that a list names, or a whole class folder tells of.
        unlisted: Where an image would lie that no list names; None if folders are the lists.
        faults: What can be wrong inside the files.
    """

    name: str
    build: Callable[[Path], None]
    images: int
    classes: int
    needed: tuple[str, ...]
    texts: tuple[str, ...] = ()
    listed: str | None = None
    unlisted: str | None = None
    faults: tuple[Fault, ...] = ()


def notes_of(report: Report) -> list[str]:
    """What was noted, but for the number of images, which is never the published one here."""
    return [note for note in report.notes if "published data set has" not in note]


def write_lines(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def save_images(root: Path, *names: str, height: int = 12, width: int = 16) -> None:
    """Different pictures under the given relative paths."""
    for seed, name in enumerate(names):
        save(root / name, seed=seed, height=height, width=width)

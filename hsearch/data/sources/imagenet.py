"""ImageNet: folders of synsets, grouped as WordNet groups them; no test classes of its own.

Reads wordnet.is_a.txt (`parent child` in every line), words.txt for readable names if it lies
beside, and the images of train/SYNSET/ or of ILSVRC2012_img_train.tar, which stays packed and, if
it is given itself, has the others beside it. Validation images, of the same classes, are left out.

WordNet's paths differ in length, and a synset may have several parents. Here a synset's path is its
longest one from a root, through the parent of the smallest id where several are as long: so a dog
is a canine and no domestic animal. Its label path is what lies on that path at `DEPTHS`, where the
root is 0 (living thing > animal > mammal), and itself, which stands for what a short path lacks.
"""

import re
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

from hsearch.data.layout import Found, Layout
from hsearch.data.records import Image, Problem, Record
from hsearch.data.text_files import read_lines
from hsearch.errors import DatasetError

HOME = "https://www.image-net.org/download.php"
TOTAL = 1_281_167
HOMES = {"wordnet.is_a.txt": "https://image-net.org/archive, made from wordnet.princeton.edu"}
ARCHIVE = "ILSVRC2012_img_train.tar"
DEPTHS = (4, 6, 9)
LEVEL_NAMES = (*(f"depth-{depth}" for depth in DEPTHS), "synset")

_SYNSET = re.compile(r"n[0-9]{8}")


def records(layout: Layout) -> Found:
    """Yields the images by synset; classes are sorted by the number of their synset."""
    layout.keep_packed(ARCHIVE)
    names = (*HOMES, f"train|Data/CLS-LOC/train|{ARCHIVE}")
    relations, images = layout.require(*names, inside="ILSVRC2012", homes=HOMES)
    paths, words = _paths(relations), _names(relations.with_name("words.txt"))
    for synset, name, image in _packed(images) if images.is_file() else _unpacked(images):
        if synset not in paths:
            raise DatasetError(
                f"Every class of {images} must be a synset of {relations}, but '{synset}' is none."
            )
        if image is None:
            yield Problem(synset, "empty folder")
            continue
        steps = [paths[synset][: depth + 1][-1] for depth in DEPTHS]
        labels = tuple(words.get(each, each) for each in (*steps, synset))
        yield Record(f"{synset}/{name}", image, labels, order=int(synset[1:]))


def _paths(relations: Path) -> dict[str, tuple[str, ...]]:
    """Returns every synset's longest path from a root, both included."""
    parents: dict[str, set[str]] = defaultdict(set)
    for line, (parent, child) in read_lines(relations, columns=2):
        if not (_SYNSET.fullmatch(parent) and _SYNSET.fullmatch(child)):
            raise DatasetError(
                f"Line {line} of {relations} must be two synsets such as n02084071, but is "
                f"'{parent} {child}'."
            )
        parents[child].add(parent)
    paths: dict[str, tuple[str, ...]] = {}
    try:
        for synset in TopologicalSorter(parents).static_order():
            above = (paths[parent] for parent in sorted(parents.get(synset, ())))
            paths[synset] = (*max(above, key=len, default=()), synset)
    except CycleError as error:
        circle = " > ".join(error.args[1])
        raise DatasetError(
            f"No synset of {relations} may be above itself, as in {circle}."
        ) from None
    return paths


def _names(words: Path) -> dict[str, str]:
    """Returns the first word of every synset with its id, as words are not unique."""
    lines = read_lines(words, columns=2) if words.exists() else ()
    return {synset: f"{word.partition(',')[0]} ({synset})" for _, (synset, word) in lines}


def _unpacked(train: Path) -> Iterator[tuple[str, str, Image | None]]:
    for folder in filter(Path.is_dir, _visible(train)):
        for image in (*_visible(folder),) or (None,):
            yield folder.name, image.name if image else "", image


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _packed(archive: Path) -> Iterator[tuple[str, str, Image]]:
    """Yields the images of a tar file that holds one tar file per synset."""
    try:
        for synset, start, _ in _entries(archive, 0):
            for name, offset, size in _entries(archive, start):
                yield synset.partition(".")[0], name, partial(_read, archive, offset, size)
    except tarfile.TarError as error:
        raise DatasetError(
            f"The archive {archive} is damaged or cut off ({error}); get it again."
        ) from None


def _entries(archive: Path, start: int) -> Iterator[tuple[str, int, int]]:
    """Yields name, offset and size of the files of the tar file that begins at `start`."""
    with archive.open("rb") as file:
        file.seek(start)
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for entry in filter(tarfile.TarInfo.isreg, tar):
                yield PurePosixPath(entry.name).name, entry.offset_data, entry.size
            end = tar.offset  # where tarfile also stops at what is no header
    if _read(archive, end, tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("no mark at the end")


def _read(path: Path, start: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(size)

"""From records to checked, encoded images: every file is opened once, over all cores."""

import hashlib
import os
from collections import Counter, defaultdict, deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from hsearch.data.header import Row
from hsearch.data.images import BadImageError, EncodedImage, bombs_are_errors, prepare_image
from hsearch.data.progress import Count
from hsearch.data.records import LEVEL_TESTS, Problem, Record, Report, check_depths, split_name
from hsearch.errors import DatasetError

Groups = tuple[tuple[str, ...], ...]

_Waiting = deque[tuple[Record, "Future[tuple[EncodedImage, bytes]]"]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A record whose image is good; `offset` and `length` say where its bytes lie in the spool."""

    record: Record
    offset: int
    length: int
    height: int
    width: int
    sha256: bytes

    @property
    def row(self) -> Row:
        """What the store's digest is made of."""
        record = self.record
        marks = record.split, record.is_query, record.is_gallery
        return record.id, record.labels, *marks, record.tags, self.sha256


def take_in(
    found: Iterable[Record | Problem],
    spool: BinaryIO,
    size: int | None,
    progress: Count,
    *,
    keep_singles: bool = False,
) -> tuple[list[Entry], Report]:
    """Checks and encodes all images into the spool.

    Args:
        found: What a source yields.
        spool: Receives the encoded images one after the other.
        size: Largest short side in pixels; None keeps all sizes.
        progress: Is told after every image how many are done, and of how many.
        keep_singles: Keep classes with a single image instead of counting them as problems.

    Returns:
        The good entries sorted by class and then by id, and the report.
    """
    problems: list[Problem] = []
    records = _unique(found, problems)
    total = len(records) + len(problems)
    if records or not problems:  # where all are bad, the report says why
        check_depths(records)
    _make_consistent(records)
    entries: list[Entry] = []
    clipped = 0
    with bombs_are_errors(), closing(_encoded(records, size)) as outcomes:
        for record, outcome in outcomes:
            if isinstance(outcome, Problem):
                problems.append(outcome)
            else:
                entries.append(_spooled(spool, record, *outcome))
                clipped += outcome[0].is_clipped
            progress(len(entries) + len(problems), total)
    singles = _singles(entries)
    if not keep_singles:
        problems.extend(Problem(name, "class with a single image") for name in singles.values())
        entries = [entry for entry in entries if entry.record.labels not in singles]
    entries.sort(key=lambda entry: (entry.record.class_key, entry.record.id))
    return entries, _report(entries, problems, singles.values() if keep_singles else (), clipped)


def _report(
    entries: list[Entry], problems: list[Problem], singles: Iterable[str], clipped: int
) -> Report:
    duplicates, conflicts = _duplicates(entries)
    return Report(
        images=len(entries),
        classes=len({entry.record.labels for entry in entries}),
        problems=tuple(problems),
        duplicates=duplicates,
        conflicts=conflicts,
        singles=tuple(singles),
        notes=(f"boxes that reached out of their image and were clipped: {clipped}",)
        * (clipped > 0),
        tags=len({tag for entry in entries for tag in entry.record.tags}),
    )


def batches(entries: list[Entry], most_bytes: int) -> Iterator[list[Entry]]:
    """Yields the entries in groups, each with so many bytes of images, or a single one."""
    first, held = 0, 0
    for i, entry in enumerate(entries):
        if i > first and held + entry.length > most_bytes:
            yield entries[first:i]
            first, held = i, 0
        held += entry.length
    yield entries[first:]


def _spooled(spool: BinaryIO, record: Record, image: EncodedImage, sha256: bytes) -> Entry:
    offset = spool.tell()
    spool.write(image.data)
    return Entry(record, offset, len(image.data), image.height, image.width, sha256)


def _unique(found: Iterable[Record | Problem], problems: list[Problem]) -> list[Record]:
    kept: dict[str, Record] = {}
    for item in _readable(found):
        if isinstance(item, Problem):
            problems.append(item)
        elif item.id in kept:
            problems.append(Problem(item.where or item.id, "duplicate id"))
        else:
            kept[item.id] = item
    return list(kept.values())


def _readable(found: Iterable[Record | Problem]) -> Iterator[Record | Problem]:
    """Yields what a source finds; a file or folder that it cannot read is one sentence."""
    try:
        yield from found
    except OSError as error:
        raise DatasetError(
            f"The data cannot be read: {error.filename or 'a file'}: {error.strerror or error}."
        ) from None


def _make_consistent(records: list[Record]) -> None:
    """Gives all records the store's names of splits, one order per class, and sorted tags.

    In place and with one label path for all images of a class, as there may be millions.
    """
    order: dict[tuple[str, ...], int] = {}
    for record in records:
        order[record.labels] = min(record.order, order.get(record.labels, record.order))
    paths = {labels: labels for labels in order}
    for i, record in enumerate(records):
        records[i] = replace(
            record,
            labels=paths[record.labels],
            split=split_name(record.split, record.id),
            order=order[record.labels],
            tags=tuple(sorted(set(record.tags))),
        )


def _encoded(
    records: list[Record], size: int | None
) -> Generator[tuple[Record, tuple[EncodedImage, bytes] | Problem], None, None]:
    """Yields each record's image in order; only a few images per core are in memory at a time."""
    workers = os.cpu_count() or 1
    waiting: _Waiting = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for record in records:
                waiting.append((record, pool.submit(_encode, record, size)))
                if len(waiting) > 4 * workers:
                    yield _outcome(waiting)
            while waiting:
                yield _outcome(waiting)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _encode(record: Record, size: int | None) -> tuple[EncodedImage, bytes]:
    try:
        source = record.image() if callable(record.image) else record.image
    except OSError:
        raise BadImageError("unreadable") from None
    image = prepare_image(source, size, record.box)
    return image, hashlib.sha256(image.data).digest()


def _outcome(waiting: _Waiting) -> tuple[Record, tuple[EncodedImage, bytes] | Problem]:
    record, future = waiting.popleft()
    try:
        return record, future.result()
    except BadImageError as error:
        return record, Problem(record.where or record.id, str(error))


def _singles(entries: list[Entry]) -> dict[tuple[str, ...], str]:
    """Classes with one image, which can neither be retrieved nor retrieve anything, and names."""
    counts = Counter(entry.record.labels for entry in entries if entry.record.labels)
    return {labels: "/".join(labels) for labels in sorted(counts) if counts[labels] == 1}


def _duplicates(entries: list[Entry]) -> tuple[Groups, Groups]:
    """All groups of ids with the same image, and those of them with different labels.

    A file that is in a test set of every level counts once.
    """
    groups: dict[bytes, dict[object, Record]] = defaultdict(dict)
    for entry in entries:
        record = entry.record
        several = record.split in LEVEL_TESTS and isinstance(record.image, Path)
        groups[entry.sha256].setdefault(record.image if several else record.id, record)
    same = [list(group.values()) for group in groups.values() if len(group) > 1]
    differ = [group for group in same if len({(each.labels, each.tags) for each in group}) > 1]
    return _ids(same), _ids(differ)


def _ids(groups: list[list[Record]]) -> Groups:
    return tuple(tuple(record.id for record in group) for group in groups)

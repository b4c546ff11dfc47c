"""The store: one memory-mapped Arrow IPC file that holds a whole data set.

One row per image, sorted by class and then by id: `id`, `class`, `split`, `is_query`,
`is_gallery`, `height`, `width` and `image` (the bytes of a JPEG, PNG or WEBP file, upright and
opaque). The schema's metadata key `hsearch` holds a JSON text with the format version, the name,
the label path of every class, the names of the levels, the digest and the provenance.

A store of multi-label data has a column `tags` too, the numbers of an image's labels among the
`tag_names` of the JSON text, and a single class that all images belong to.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from hsearch.data.header import FORMAT_VERSION, Header, Row, content_digest
from hsearch.data.intake import Entry, batches, take_in
from hsearch.data.progress import Count, Progress, counted, silent
from hsearch.data.records import SEEN, BadFilesError, Problem, Record, Report
from hsearch.errors import DatasetError
from hsearch.files import replacing
from hsearch.hierarchy import Hierarchy, default_level_names

__all__ = ["FORMAT_VERSION", "Store", "write_store"]

_KEY = b"hsearch"
_BATCH_BYTES = 8 * 1024**2
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("class", pa.int32()),
        ("split", pa.string()),
        ("is_query", pa.bool_()),
        ("is_gallery", pa.bool_()),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("image", pa.binary()),
    ]
)
_TAGS = pa.field("tags", pa.list_(pa.int32()))
_NO_CLASS = "image"
"""Class and level of multi-label data, which have none."""


@dataclass(frozen=True, eq=False)
class Store:
    """An open store. Opening it reads labels and sizes, but no image.

    Attributes:
        path: The Arrow file.
        name: Of the data set.
        digest: sha256 over ids, label paths, splits and image bytes, in hex digits.
        hierarchy: The label paths of its classes, which are sorted by their ids.
        classes: (N,) class of every row.
        split: (N,) see `Record`; empty where the source gave none.
        is_query: (N,) whether a row may be a query.
        is_gallery: (N,) whether a row may be retrieved.
        heights: (N,) in pixels.
        widths: (N,) in pixels.
        provenance: Where it came from and how it was made.
        tag_names: All labels of multi-label data, sorted; none otherwise.
    """

    path: Path
    name: str
    digest: str
    hierarchy: Hierarchy
    classes: NDArray[np.int64]
    split: NDArray[np.str_]
    is_query: NDArray[np.bool_]
    is_gallery: NDArray[np.bool_]
    heights: NDArray[np.int64]
    widths: NDArray[np.int64]
    provenance: dict[str, object]
    tag_names: tuple[str, ...]
    _ids: pa.ChunkedArray = field(repr=False)
    _tags: pa.ChunkedArray | None = field(repr=False)
    _images: list[pa.BinaryArray] = field(repr=False)
    _starts: NDArray[np.int64] = field(repr=False)

    @classmethod
    def open(cls, path: Path) -> "Store":
        """Opens the store at `path`."""
        table = _read(path)
        header = Header.from_json((table.schema.metadata or {}).get(_KEY), path)
        images = table["image"].chunks
        return cls(
            path=path,
            name=header.name,
            digest=header.digest,
            hierarchy=Hierarchy.from_names(header.classes, header.level_names),
            classes=table["class"].to_numpy().astype(np.int64),
            split=table["split"].to_numpy().astype(np.str_),
            is_query=table["is_query"].to_numpy(),
            is_gallery=table["is_gallery"].to_numpy(),
            heights=table["height"].to_numpy().astype(np.int64),
            widths=table["width"].to_numpy().astype(np.int64),
            provenance=header.provenance,
            tag_names=tuple(header.tag_names),
            _ids=table["id"],
            _tags=table["tags"] if header.tag_names else None,
            _images=images,
            _starts=np.cumsum([0, *map(len, images)])[:-1],
        )

    def __len__(self) -> int:
        return len(self.classes)

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Store.open, (self.path,)

    @cached_property
    def ids(self) -> list[str]:
        """The id of every row."""
        ids: list[str] = self._ids.to_pylist()
        return ids

    @cached_property
    def tags(self) -> NDArray[np.bool_]:
        """(N, T) which of the T `tag_names` every image has; T is 0 where they have classes."""
        marks = np.zeros((len(self), len(self.tag_names)), dtype=np.bool_)
        if self._tags is not None:
            lists = self._tags.combine_chunks()
            rows = np.repeat(np.arange(len(self)), np.diff(lists.offsets.to_numpy()))
            marks[rows, lists.flatten().to_numpy()] = True
        return marks

    def label_path(self, label: int) -> tuple[str, ...]:
        """Returns the names on the path of one class, coarsest first."""
        path = self.hierarchy.paths[label]
        return tuple(names[int(i)] for names, i in zip(self.hierarchy.names, path, strict=True))

    def rows(self, classes: ArrayLike, *, seen: bool = False) -> NDArray[np.int64]:
        """Returns the row numbers of the images of the given classes, ascending.

        Images of the split `seen`, held out although their class is trained on, are never among
        the others: they come alone, if asked for.
        """
        held_out = self.split == SEEN
        return np.flatnonzero(np.isin(self.classes, np.asarray(classes)) & (held_out == seen))

    def encoded(self, row: int) -> memoryview:
        """Returns the bytes of one image file without copying them."""
        if not 0 <= row < len(self):
            raise IndexError(f"Row {row} is not in 0..{len(self) - 1}.")
        chunk = int(np.searchsorted(self._starts, row, side="right")) - 1
        image = self._images[chunk][row - int(self._starts[chunk])]
        return memoryview(image.as_buffer()).cast("B")

    def sizes(self, rows: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns heights and widths of the given rows, in pixels."""
        return self.heights[np.asarray(rows)], self.widths[np.asarray(rows)]


def write_store(
    path: Path,
    name: str,
    records: Iterable[Record | Problem],
    *,
    size: int | None = 256,
    level_names: Sequence[str] | None = None,
    provenance: Mapping[str, object],
    skip_bad: bool = False,
    progress: Progress = silent,
) -> Report:
    """Writes a store that appears whole, or not at all.

    The same records give the same bytes.

    Args:
        path: The Arrow file to write; an old one is replaced.
        name: Of the data set.
        records: What a source yields.
        size: Largest short side in pixels, at least 1; None keeps the original sizes.
        level_names: Of the levels, coarsest first.
        provenance: JSON values that say where the data came from.
        skip_bad: Go on without what cannot be used instead of raising `BadFilesError`.
        progress: Called after every image prepared, every batch written and every image checked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # An unnamed file: encoded images wait here until all classes and the digest are known.
        with tempfile.TemporaryFile(dir=path.parent) as spool:
            entries, report = take_in(records, spool, size, partial(progress, f"preparing {name}"))
            spool.flush()
            if report.problems and not skip_bad:
                raise BadFilesError(report)
            if not entries:
                raise DatasetError("No class with at least two usable images was found.")
            schema = _schema(name, entries, level_names, dict(provenance))
            with replacing(path) as temporary:
                _write(temporary, schema, entries, spool, partial(progress, f"writing {name}"))
                _verify(temporary, partial(progress, f"checking {name}"))
    except OSError as error:
        raise DatasetError(f"The store {path} cannot be written: {error.strerror}.") from error
    return report


def _schema(
    name: str,
    entries: list[Entry],
    level_names: Sequence[str] | None,
    provenance: dict[str, object],
) -> pa.Schema:
    classes = _classes(entries)
    digest = content_digest(entry.row for entry in entries)
    tag_names = sorted({tag for entry in entries for tag in entry.record.tags})
    if tag_names:
        header = Header(name, digest, [_NO_CLASS], [[_NO_CLASS]], provenance, tag_names)
        schema = _SCHEMA.append(_TAGS)
    else:
        names = level_names or default_level_names(len(classes[0]))
        Hierarchy.from_names(classes, names)
        header = Header(name, digest, names, classes, provenance)
        schema = _SCHEMA
    return schema.with_metadata({_KEY: header.to_json()})


def _classes(entries: list[Entry]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(entry.record.labels for entry in entries))


def _write(
    path: Path, schema: pa.Schema, entries: list[Entry], spool: BinaryIO, progress: Count
) -> None:
    classes = {labels: i for i, labels in enumerate(_classes(entries))}
    tags = {tag for entry in entries for tag in entry.record.tags}
    numbers = {tag: i for i, tag in enumerate(sorted(tags))}
    done = 0
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in batches(entries, _BATCH_BYTES):
            records = [entry.record for entry in batch]
            columns = [
                [record.id for record in records],
                [classes[record.labels] for record in records],
                [record.split for record in records],
                [record.is_query for record in records],
                [record.is_gallery for record in records],
                [entry.height for entry in batch],
                [entry.width for entry in batch],
                [os.pread(spool.fileno(), entry.length, entry.offset) for entry in batch],
            ]
            if numbers:
                columns.append([[numbers[tag] for tag in record.tags] for record in records])
            arrays = map(pa.array, columns, schema.types)
            writer.write_batch(pa.record_batch(list(arrays), schema=schema))
            done += len(batch)
            progress(done, len(entries))


def _verify(path: Path, progress: Count) -> None:
    """Reads a store back, images included, and compares it with its digest.

    Not through a memory map, whose pages would count as memory of the process.
    """
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        header = Header.from_json(reader.schema.metadata[_KEY], path)
        numbers = counted(reader.num_record_batches, progress)
        rows = (row for i in numbers for row in _rows(reader.get_batch(i), header))
        if content_digest(rows) != header.digest:
            raise DatasetError(f"The store {path} differs from what was written; check the disk.")


def _rows(batch: pa.RecordBatch, header: Header) -> Iterator[Row]:
    for values, image in zip(
        batch.drop_columns(["image"]).to_pylist(), batch["image"], strict=True
    ):
        yield (
            values["id"],
            () if header.tag_names else header.classes[values["class"]],
            values["split"],
            values["is_query"],
            values["is_gallery"],
            [header.tag_names[tag] for tag in values.get("tags", ())],
            hashlib.sha256(image.as_buffer()).digest(),
        )


def _read(path: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except FileNotFoundError:
        raise DatasetError(
            f"The store {path} does not exist; `hsearch data list` shows those that do."
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(
            f"{path} is not a store, or it is damaged ({error}); prepare it again."
        ) from None

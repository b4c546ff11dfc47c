"""Writing a store: records become one Arrow file that appears whole, or not at all."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from hsearch.data.header import KEY, Header, Row, content_digest
from hsearch.data.intake import Entry, batches, take_in
from hsearch.data.progress import Count, Progress, counted, silent
from hsearch.data.records import BadFilesError, LevelNames, Problem, Record, Report
from hsearch.errors import DatasetError
from hsearch.files import replacing
from hsearch.hierarchy import Hierarchy, default_level_names

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


def write_store(
    path: Path,
    name: str,
    records: Iterable[Record | Problem | LevelNames],
    *,
    size: int | None = 256,
    level_names: Sequence[str] | None = None,
    provenance: Mapping[str, object],
    skip_bad: bool = False,
    keep_singles: bool = False,
    progress: Progress = silent,
) -> Report:
    """Writes a store that appears whole, or not at all.

    The same records give the same bytes.

    Args:
        path: The Arrow file to write; an old one is replaced.
        name: Of the data set.
        records: What a source yields.
        size: Largest short side in pixels, at least 1; None keeps the original sizes.
        level_names: Of the levels, coarsest first, unless they come with the records; by default
            level_0 and so on.
        provenance: JSON values that say where the data came from.
        skip_bad: Go on without what cannot be used instead of raising `BadFilesError`.
        keep_singles: Keep classes with a single image, as a published data set has them.
        progress: Called after every image prepared, every batch written and every image checked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # An unnamed file: encoded images wait here until all classes and the digest are known.
        with tempfile.TemporaryFile(dir=path.parent) as spool:
            count = partial(progress, f"preparing {name}")
            names = list(level_names or ())
            images = _without_names(records, names)
            entries, report = take_in(images, spool, size, count, keep_singles=keep_singles)
            spool.flush()
            if report.problems and not (skip_bad and entries):
                raise BadFilesError(report)
            schema = _schema(name, entries, names, dict(provenance))
            with replacing(path) as temporary:
                _write(temporary, schema, entries, spool, partial(progress, f"writing {name}"))
                _verify(temporary, partial(progress, f"checking {name}"))
    except OSError as error:
        raise DatasetError(f"The store {path} cannot be written: {error.strerror}.") from error
    return report


def _without_names(
    records: Iterable[Record | Problem | LevelNames], names: list[str]
) -> Iterator[Record | Problem]:
    """Yields the rest; names of levels are put in place of those given."""
    for item in records:
        if isinstance(item, LevelNames):
            names[:] = item.names
        else:
            yield item


def _schema(
    name: str,
    entries: list[Entry],
    level_names: Sequence[str],
    provenance: dict[str, object],
) -> pa.Schema:
    classes = _classes(entries)
    digest = content_digest(entry.row for entry in entries)
    tag_names = sorted({tag for entry in entries for tag in entry.record.tags})
    if not (tag_names or classes[0]):
        raise DatasetError(
            "Some images must have a label, but only images that cannot be used have one; correct "
            "these, which --report FILE.csv lists if --skip-bad is left out."
        )
    if tag_names:
        header = Header(name, digest, [_NO_CLASS], [[_NO_CLASS]], provenance, tag_names)
        schema = _SCHEMA.append(_TAGS)
    else:
        names = level_names or default_level_names(len(classes[0]))
        Hierarchy.from_names(classes, names)
        header = Header(name, digest, names, classes, provenance)
        schema = _SCHEMA
    return schema.with_metadata({KEY: header.to_json()})


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
        header = Header.from_json(reader.schema.metadata[KEY], path)
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

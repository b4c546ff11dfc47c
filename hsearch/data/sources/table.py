"""A CSV or Parquet table: path, label (or level_0..level_n), split, is_query, is_gallery.

`path` is relative to the table's folder, and the file it leads to, links followed, must lie inside
that folder; `id` is the path unless there is such a column. Classes are sorted by number if the
finest label is always an integer, else by their label path. An empty `is_query` or `is_gallery`
counts as yes. `validation` counts as train, as `val` does, except in a table with both of these
columns and no `test` row, as Open Metric Learning has them: there it is the held-out part, so it
counts as test. Columns of other names are ignored, which a note tells.
"""

import csv
import difflib
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hsearch.data.records import SPLITS, Note, Problem, Record
from hsearch.errors import DatasetError

_YES = ("", "1", "1.0", "true", "yes", "nan")
_NO = ("0", "0.0", "false", "no")
_MARKS = ("is_query", "is_gallery")
_OPTIONAL = ("id", "split", *_MARKS)
_SPLITS = tuple(name for name in SPLITS if name)
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_LEVEL = re.compile(r"level_\d+")
_ALIKE = 0.8
"""Similarity from which an unknown column counts as a misspelt one; `spilt` has it to `split`."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `number` is its first line in a CSV, and counts from 1 in a Parquet file."""

    number: int
    cells: dict[str, str]
    fault: str | None = None

    @property
    def where(self) -> str:
        """What a user finds it by."""
        path = self.cells.get("path")
        return f"row {self.number} ({path})" if path else f"row {self.number}"


def records(path: Path) -> Iterator[Record | Problem | Note]:
    """Yields the rows of the table at `path`."""
    columns, rows = read_table(path)
    ignored = ignored_columns(path, columns)
    levels = level_columns(path, columns)
    if "path" not in columns or not levels:
        raise DatasetError(
            f"A table needs the column `path` and either `label` or `level_0`, `level_1`, ...; "
            f"optional are {', '.join(_OPTIONAL)}; {path} has: {', '.join(columns)}."
        )
    if ignored:
        yield Note(f"ignored columns: {', '.join(name or '(no name)' for name in ignored)}")
    yield from row_records(path, path.parent, columns, rows)


def row_records(
    path: Path, folder: Path, columns: list[str], rows: list[Row]
) -> Iterator[Record | Problem]:
    """Yields what the rows tell of; the paths in them are relative to the folder.

    Args:
        path: The table, for messages.
        folder: That must hold all images.
        columns: With `path` and at least one level among them.
        rows: Of the table, with a cell for every column.
    """
    levels = level_columns(path, columns)
    root = folder.resolve()
    faults = [row.fault or _fault(root, row.cells, levels) for row in rows]
    good = [row.cells for row, fault in zip(rows, faults, strict=True) if not fault]
    numbered = all(_INTEGER.fullmatch(cells[levels[-1]]) for cells in good)
    held_out = _has_held_out_validation(columns, good)
    _check_marks(path, good, held_out)
    for row, fault in zip(rows, faults, strict=True):
        if fault:
            yield Problem(row.where, fault)
            continue
        cells = row.cells
        yield Record(
            id=cells.get("id") or cells["path"],
            image=folder / cells["path"],
            labels=tuple(cells[level] for level in levels),
            split=_split(cells, held_out),
            is_query=is_marked(cells, "is_query"),
            is_gallery=is_marked(cells, "is_gallery"),
            order=int(cells[levels[-1]]) if numbered else 0,
            where=row.where,
        )


def read_table(path: Path) -> tuple[list[str], list[Row]]:
    """Returns the names of the columns and all rows, of which there is at least one."""
    if not path.is_file():
        raise DatasetError(f"A table must be a file, but {path} is none.")
    columns, rows = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)
    if not rows:
        raise DatasetError(f"The table {path} has no rows.")
    return columns, rows


def _read_csv(path: Path) -> tuple[list[str], list[Row]]:
    rows: list[Row] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            columns = [name.strip() for name in next(reader, [])]
            line = reader.line_num + 1
            for fields in reader:
                if fields:
                    rows.append(_row(line, columns, fields))
                line = reader.line_num + 1
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"The table {path} cannot be read as UTF-8 CSV: {error}.") from None
    if len(columns) == 1 and (";" in columns[0] or "\t" in columns[0]):
        kind = "semicolons" if ";" in columns[0] else "tabs"
        raise DatasetError(
            f"The columns of a CSV must be parted by commas, but {path} has {kind}; save it with "
            "commas."
        )
    return columns, rows


def _row(line: int, columns: list[str], fields: list[str]) -> Row:
    cells = {key: field.strip() for key, field in zip(columns, fields, strict=False)}
    whole = len(fields) == len(columns)
    return Row(line, cells, None if whole else f"row has {len(fields)} of {len(columns)} fields")


def _read_parquet(path: Path) -> tuple[list[str], list[Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        rows = table.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"The table {path} cannot be read as Parquet: {error}.") from None
    return table.column_names, [
        Row(number, {key: cell_text(value) for key, value in row.items()})
        for number, row in enumerate(rows, start=1)
    ]


def cell_text(value: object) -> str:
    """Returns a cell as in a CSV; integers that a missing cell made floats are integers again."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def ignored_columns(path: Path, columns: list[str]) -> list[str]:
    """Returns columns that have no meaning here; one that looks like a misspelt one is an error."""
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise DatasetError(f"The columns of a table must differ, but {path} has two '{twice}'.")
    labels = ["label"] if "label" in columns else [f"level_{i}" for i in range(10)]
    if not any(map(_LEVEL.fullmatch, columns)):
        labels.append("label")
    known = ["path", *labels, *_OPTIONAL]
    unknown = [
        name
        for name in columns
        if name not in ("path", "label", *_OPTIONAL) and not _LEVEL.fullmatch(name)
    ]
    for name in unknown:
        meant = _nearest(name, known)
        if meant and meant not in columns:
            raise DatasetError(
                f"The table {path} has a column '{name}', which is not known; did you mean "
                f"'{meant}'? Rename it, also if it is to be ignored."
            )
    return unknown


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """The known column that is meant, if one is likely; very short names must be the same."""
    lower = name.lower()
    if len(lower) <= 3:
        return lower if lower in known else None
    return next(iter(difflib.get_close_matches(lower, known, n=1, cutoff=_ALIKE)), None)


def level_columns(path: Path, columns: list[str]) -> list[str]:
    """Returns the columns of the label path, coarsest first; none if there are none."""
    numbered = sorted(filter(_LEVEL.fullmatch, columns), key=_number)
    if numbered and [_number(name) for name in numbered] != list(range(len(numbered))):
        raise DatasetError(f"Columns level_0, level_1, ... of {path} have a gap: {numbered}.")
    if numbered and "label" in columns:
        raise DatasetError(
            f"A table has either `label` or `level_0`, `level_1`, ..., but {path} has both: "
            f"{', '.join(['label', *numbered])}; take one of them out."
        )
    return numbered or [name for name in ("label",) if name in columns]


def _number(level: str) -> int:
    return int(level.removeprefix("level_"))


def _fault(root: Path, cells: dict[str, str], levels: list[str]) -> str | None:
    """Why a row cannot be used, if so."""
    path = cells["path"]
    if not path:
        return "empty path"
    if "\0" in path or not Path(os.path.realpath(root / path)).is_relative_to(root):
        return "path out of the table's folder"
    if cells.get("split", "").lower() not in ("", *_SPLITS):
        return f"split is none of {', '.join(_SPLITS)}"
    return label_fault(cells, levels)


def label_fault(cells: dict[str, str], levels: list[str]) -> str | None:
    """Returns why labels and marks of a row cannot be used, if so."""
    if not all(cells[level] for level in levels):
        return "empty label"
    for column in _MARKS:
        if cells.get(column, "").lower() not in _YES + _NO:
            return f"{column} is not true, false or empty"
    return (
        None if any(is_marked(cells, column) for column in _MARKS) else "neither query nor gallery"
    )


def is_marked(cells: dict[str, str], mark: str) -> bool:
    """Returns whether a row is a query or in the gallery; an empty or absent mark is a yes."""
    return cells.get(mark, "").lower() in _YES


def _has_held_out_validation(columns: list[str], rows: list[dict[str, str]]) -> bool:
    marked = all(mark in columns for mark in _MARKS)
    return marked and all(cells.get("split", "").lower() != "test" for cells in rows)


def _split(cells: dict[str, str], held_out: bool) -> str:
    split = cells.get("split", "")
    if split.lower() == "validation":
        return "test" if held_out else "val"
    return split


def _check_marks(path: Path, rows: list[dict[str, str]], held_out: bool) -> None:
    """Raises unless the rows that are tested, or else all, have a query and a gallery."""
    tested = [cells for cells in rows if _split(cells, held_out).lower() == "test"]
    for mark, what in zip(_MARKS, ("searched with", "found"), strict=True):
        if rows and not any(is_marked(cells, mark) for cells in tested or rows):
            raise DatasetError(
                f"Some images must be {what}, but `{mark}` is false in all {'test ' * bool(tested)}"
                f"rows of {path}; set it to true, or leave it empty, where it may be."
            )

"""A CSV or Parquet table: path, label (or level_0..level_n), split, is_query, is_gallery.

`path` is relative to the table's folder, and the file it leads to, links followed, must lie inside
that folder; `id` is the path unless there is such a column. Classes are sorted by number if the
finest label is always an integer, else by their label path. An empty `is_query` or `is_gallery`
counts as yes. `validation` counts as train, as `val` does, except in a table with both of these
columns and no `test` row, as Open Metric Learning has them: there it is the held-out part, so it
counts as test.
"""

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path

from hsearch.data.records import Problem, Record
from hsearch.errors import DatasetError

Row = dict[str, str]

_YES = ("", "1", "1.0", "true", "yes", "nan")
_NO = ("0", "0.0", "false", "no")
_OPTIONAL = ("id", "split", "is_query", "is_gallery")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def records(path: Path) -> Iterator[Record | Problem]:
    """Yields the rows of the table at `path`."""
    rows = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)
    if not rows:
        raise DatasetError(f"The table {path} has no rows.")
    levels = _levels(path, rows[0])
    numbered = all(_INTEGER.fullmatch(row[levels[-1]]) for row in rows)
    held_out = _has_held_out_validation(rows)
    root = path.parent.resolve()
    for number, row in enumerate(rows, start=1):
        where = f"row {number}"
        labels = tuple(row[level] for level in levels)
        fault = _fault(root, row["path"], labels)
        if fault:
            yield Problem(where, fault)
            continue
        split = row.get("split", "")
        if split.lower() == "validation":
            split = "test" if held_out else "val"
        yield Record(
            id=row.get("id") or row["path"],
            image=path.parent / row["path"],
            labels=labels,
            split=split,
            is_query=_boolean(row, "is_query", where),
            is_gallery=_boolean(row, "is_gallery", where),
            order=int(labels[-1]) if numbered else 0,
        )


def _fault(root: Path, path: str, labels: tuple[str, ...]) -> str | None:
    """Why a row cannot be used, if so."""
    if not path or not all(labels):
        return "row without path or label"
    if "\0" in path or not Path(os.path.realpath(root / path)).is_relative_to(root):
        return "path out of the table's folder"
    return None


def _read_csv(path: Path) -> list[Row]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restkey="", restval="", strict=True)
            return [{key: str(value).strip() for key, value in row.items()} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"The table {path} cannot be read as UTF-8 CSV: {error}.") from None


def _read_parquet(path: Path) -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"The table {path} cannot be read as Parquet: {error}.") from None
    return [
        {key: "" if value is None else str(value).strip() for key, value in row.items()}
        for row in rows
    ]


def _levels(path: Path, row: Row) -> list[str]:
    """The columns of the label path, coarsest first."""
    numbered = sorted((name for name in row if re.fullmatch(r"level_\d+", name)), key=_number)
    if numbered and [_number(name) for name in numbered] != list(range(len(numbered))):
        raise DatasetError(f"Columns level_0, level_1, ... of {path} have a gap: {numbered}.")
    levels = numbered or [name for name in ("label",) if name in row]
    if "path" not in row or not levels or ("label" in row and numbered):
        raise DatasetError(
            f"A table needs the column `path` and either `label` or `level_0`, `level_1`, ...; "
            f"optional are {', '.join(_OPTIONAL)}; {path} has: {', '.join(row)}."
        )
    return levels


def _number(level: str) -> int:
    return int(level.removeprefix("level_"))


def _has_held_out_validation(rows: list[Row]) -> bool:
    marked = "is_query" in rows[0] and "is_gallery" in rows[0]
    return marked and all(row.get("split", "").lower() != "test" for row in rows)


def _boolean(row: Row, column: str, where: str) -> bool:
    value = row.get(column, "").lower()
    if value not in _YES + _NO:
        raise DatasetError(
            f"Column {column} must be true, false or empty, but {where} has '{row[column]}'."
        )
    return value in _YES

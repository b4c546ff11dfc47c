"""Labels without images: the table that says what each row of an array of embeddings shows.

It has the columns of the tables that can be prepared (sources/table.py), of which only the labels
and the marks `is_query` and `is_gallery` are read; row i belongs to embedding i. A column `tags`
beside the labels is ignored, and refused in their place: embeddings are scored by one label each.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hsearch.data.sources.table import ignored_columns, is_marked, label_fault, level_columns
from hsearch.data.tables import TAGS, Row, read_table
from hsearch.errors import DatasetError
from hsearch.hierarchy import Hierarchy

_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The labels of N rows.

    Attributes:
        hierarchy: Of all classes that occur; a label is its whole path.
        classes: (N,) class of every row.
        is_query: (N,) whether a row may be a query.
        is_gallery: (N,) whether a row may be retrieved.
        ignored: Columns that were not read although somebody may have meant something by them.
    """

    hierarchy: Hierarchy
    classes: NDArray[np.int64]
    is_query: NDArray[np.bool_]
    is_gallery: NDArray[np.bool_]
    ignored: tuple[str, ...]


def read_labels(path: Path) -> LabelTable:
    """Returns the labels of a .csv or .parquet file."""
    if path.suffix.lower() not in _SUFFIXES:
        raise DatasetError(f"Labels come from a .csv or .parquet file, not from {path}.")
    if not path.is_file():
        raise DatasetError(f"Labels come from a file, but there is no file {path}.")
    columns, rows = read_table(path)
    ignored = ignored_columns(path, columns)
    levels = level_columns(path, columns)
    if TAGS in columns and not levels:
        raise DatasetError(
            f"Embeddings are scored by one label per row, but {path} has `{TAGS}`, several labels "
            "per image; give each row a `label`, or `level_0`, `level_1`, ...."
        )
    if not levels:
        raise DatasetError(
            "Labels need the column `label` or the columns `level_0`, `level_1`, ... with the "
            f"coarsest first; {path} has: {', '.join(columns)}."
        )
    _check_rows(path, rows, levels)
    label_paths = [tuple(row.cells[level] for level in levels) for row in rows]
    known = {labels: number for number, labels in enumerate(sorted(set(label_paths)))}
    return LabelTable(
        hierarchy=Hierarchy.from_names(known, levels),
        classes=np.array([known[labels] for labels in label_paths]),
        is_query=_marks(path, rows, "is_query"),
        is_gallery=_marks(path, rows, "is_gallery"),
        ignored=tuple(name for name in columns if name in ("split", TAGS, *ignored)),
    )


def _check_rows(path: Path, rows: list[Row], levels: list[str]) -> None:
    """Raises unless every row can be used: without one, the others would lose their embeddings."""
    faults = [(row, row.fault or label_fault(row.cells, levels)) for row in rows]
    bad = [(row.where, fault) for row, fault in faults if fault]
    if bad:
        raise DatasetError(
            f"Every row of {path} must be usable, because row i belongs to embedding i, but "
            f"{len(bad)} of {len(rows)} are not; the first is {bad[0][0]}: {bad[0][1]}."
        )


def _marks(path: Path, rows: list[Row], mark: str) -> NDArray[np.bool_]:
    marks = np.array([is_marked(row.cells, mark) for row in rows])
    if not marks.any():
        raise DatasetError(
            f"`{mark}` must be true or empty somewhere, but it is false in all rows of {path}."
        )
    return marks

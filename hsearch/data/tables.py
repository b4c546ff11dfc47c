"""The rows of CSV and Parquet files as text, whatever their columns mean.

Only `tags` may be more than one text in a cell: a list, or texts with semicolons between.
"""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hsearch.errors import DatasetError

TAGS = "tags"
SEPARATOR = ";"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table.

    Attributes:
        number: The row's first line in a CSV; counts from 1 in a Parquet file.
        cells: Its text in every column.
        tags: What the column `tags` lists, each once; None if that is no list of texts.
        fault: Why it cannot be used, whatever it is used for.
    """

    number: int
    cells: dict[str, str]
    tags: tuple[str, ...] | None = ()
    fault: str | None = None

    @property
    def where(self) -> str:
        """What a user finds it by."""
        path = self.cells.get("path")
        return f"row {self.number} ({path})" if path else f"row {self.number}"


def read_table(path: Path) -> tuple[list[str], list[Row]]:
    """Returns the names of the columns and all rows, of which there is at least one."""
    if not path.is_file():
        raise DatasetError(f"A table must be a file, but {path} is none.")
    columns, rows = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)
    if not rows:
        raise DatasetError(f"The table {path} has no rows.")
    return columns, rows


def row_of(number: int, values: Mapping[str, object], fault: str | None = None) -> Row:
    """Returns the row with the given values."""
    cells = {key: _cell_text(value) for key, value in values.items()}
    return Row(number, cells, _tags(values.get(TAGS)), fault)


def _read_csv(path: Path) -> tuple[list[str], list[Row]]:
    rows: list[Row] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            columns = [name.strip() for name in next(reader, [])]
            line = reader.line_num + 1
            for fields in reader:
                if fields:
                    rows.append(_csv_row(line, columns, fields))
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


def _csv_row(line: int, columns: list[str], fields: list[str]) -> Row:
    whole = len(fields) == len(columns)
    fault = None if whole else f"row has {len(fields)} of {len(columns)} fields"
    return row_of(line, dict(zip(columns, fields, strict=False)), fault)


def _read_parquet(path: Path) -> tuple[list[str], list[Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        rows = table.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"The table {path} cannot be read as Parquet: {error}.") from None
    return table.column_names, [row_of(number, row) for number, row in enumerate(rows, start=1)]


def _cell_text(value: object) -> str:
    """A cell as in a CSV; integers that a missing cell made floats are integers again."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _tags(value: object) -> tuple[str, ...] | None:
    """The texts in a cell, each once; a text of a list may have the separator in it."""
    parts = value if isinstance(value, list) else [value]
    if not all(part is None or isinstance(part, (str, int, float)) for part in parts):
        return None
    if isinstance(value, str):
        parts = value.split(SEPARATOR)
    return tuple(dict.fromkeys(text for text in map(_cell_text, parts) if text))

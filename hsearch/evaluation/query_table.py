"""Scores query by query, kept in a file, so that methods can be compared on the same queries."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hsearch.errors import DatasetError
from hsearch.files import write_whole

QUERIES = "queries.npz"
"""Of a run's folder: what every query scored, by `separated` and `concatenated`."""

FLOOR_NAME = "floor"
"""Of the folder of a reproduction that has the floor's `QUERIES`, and of the table in it."""

_ROWS = "rows"


@dataclass(frozen=True, eq=False)
class QueryTable:
    """What every query scored.

    Attributes:
        rows: (Q,) which of the scored images query, ascending.
        values: Name of a metric -> (Q,) scores; NaN where the metric does not apply to a query,
            which then counts in no mean.
    """

    rows: NDArray[np.int64]
    values: dict[str, NDArray[np.float32]]


def write_query_tables(path: Path, tables: Mapping[str, QueryTable]) -> None:
    """Writes tables of the same queries by name, atomically, as one `.npz` file."""
    arrays: dict[str, NDArray[np.generic]] = {_ROWS: next(iter(tables.values())).rows}
    for name, table in tables.items():
        arrays |= {f"{name}/{metric}": values for metric, values in table.values.items()}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    write_whole(path, file.getvalue())


def read_query_tables(path: Path) -> dict[str, QueryTable]:
    """Returns the tables of a file by name; nothing in it is unpickled."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise DatasetError(f"The scores in {path} cannot be read: {error}.") from error
    values: dict[str, dict[str, NDArray[np.float32]]] = {}
    for key, array in arrays.items():
        if key != _ROWS:
            name, _, metric = key.partition("/")
            values.setdefault(name, {})[metric] = array
    return {name: QueryTable(arrays[_ROWS], found) for name, found in values.items()}

"""A CSV or Parquet table: path, label (or level_0..level_n, or tags), split, is_query, is_gallery.

Columns of labels may have names of their own, which --levels gives, the coarsest first: --levels
family,species. If the table has no such columns, these are what its own levels are called.
`path` is relative to the table's folder, and the file it leads to, links followed, must lie inside
that folder; `id` is the path unless there is such a column. Classes are sorted by number if the
finest label is always an integer, else by their label path. An empty `is_query` or `is_gallery`
counts as yes. `validation` counts as train, as `val` does, except in a table with both of these
columns and no `test` row, as Open Metric Learning has them: there it is the held-out part, so it
counts as test. Columns of other names are ignored, which a note tells.

`tags` in place of a label is for images with several labels, or none: their labels with semicolons
between, or in Parquet a list of texts. Such a table has no `is_query` and `is_gallery`.
"""

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hsearch.data.records import SPLITS, LevelNames, Note, Problem, Record, check_num_levels
from hsearch.data.tables import SEPARATOR, TAGS, Row, read_table
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


def records(
    path: Path, levels: tuple[str, ...] | None = None
) -> Iterator[Record | Problem | Note | LevelNames]:
    """Yields the rows of the table at `path`.

    Args:
        path: The table.
        levels: Columns of labels, coarsest first, or else names of the levels.
    """
    columns, rows = read_table(path)
    ignored = ignored_columns(path, columns, levels)
    if "path" not in columns or not has_labels(path, columns, levels):
        raise DatasetError(
            f"A table needs the column `path` and either `label`, or `level_0`, `level_1`, ..., or "
            f"columns that --levels names, or `{TAGS}` (several labels with `;` between); optional "
            f"are {', '.join(_OPTIONAL)}; {path} has: {', '.join(columns)}."
        )
    if ignored:
        yield Note(f"ignored columns: {', '.join(name or '(no name)' for name in ignored)}")
    yield from row_records(path, path.parent, columns, rows, levels)


def row_records(
    path: Path,
    folder: Path,
    columns: list[str],
    rows: list[Row],
    named: tuple[str, ...] | None = None,
) -> Iterator[Record | Problem | Note | LevelNames]:
    """Yields what the rows tell of; the paths in them are relative to the folder.

    Args:
        path: The table, for messages.
        folder: That must hold all images.
        columns: With `path` and at least one level among them, or `tags`.
        rows: Of the table, with a cell for every column.
        named: Columns of labels, coarsest first, or else names of the levels.
    """
    levels = level_columns(path, columns, named)
    if levels:
        yield LevelNames(named or tuple(levels))
    root = folder.resolve()
    faults = [row.fault or _fault(root, row, levels) for row in rows]
    usable = [row for row, fault in zip(rows, faults, strict=True) if not fault]
    if not levels:
        yield from _tag_notes(path, usable)
    good = [row.cells for row in usable]
    numbered = bool(levels) and all(_INTEGER.fullmatch(cells[levels[-1]]) for cells in good)
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
            tags=row.tags or (),
            where=row.where,
        )


def ignored_columns(
    path: Path, columns: list[str], named: tuple[str, ...] | None = None
) -> list[str]:
    """Returns columns that have no meaning here; one that looks like a misspelt one is an error."""
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise DatasetError(f"The columns of a table must differ, but {path} has two '{twice}'.")
    own = own_columns(path, columns, named)
    labels = own or ["label", *filter(_LEVEL.fullmatch, columns)]
    unknown = [name for name in columns if name not in ("path", *labels, TAGS, *_OPTIONAL)]
    known = ["path", *([] if own else _other_labels(columns)), *_OPTIONAL]
    for name in unknown:
        meant = _nearest(name, known)
        if meant and meant not in columns:
            several = f", or '{TAGS}' for several per image" if name.lower() == "labels" else ""
            raise DatasetError(
                f"The table {path} has a column '{name}', which is not known; did you mean "
                f"'{meant}'{several}? Rename it, also if it is to be ignored."
            )
    return unknown


def _other_labels(columns: list[str]) -> list[str]:
    """Columns of labels that could stand beside the given ones."""
    if "label" in columns or TAGS in columns:
        return []
    levels = [f"level_{i}" for i in range(10)]
    return levels if any(map(_LEVEL.fullmatch, columns)) else [*levels, "label", TAGS]


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """The known column that is meant, if one is likely; very short names must be the same."""
    lower = name.lower()
    if len(lower) <= 3:
        return lower if lower in known else None
    return next(iter(difflib.get_close_matches(lower, known, n=1, cutoff=_ALIKE)), None)


def has_labels(path: Path, columns: list[str], named: tuple[str, ...] | None = None) -> bool:
    """Returns whether any column has labels; such that do not go together are an error."""
    levels = level_columns(path, columns, named)
    if TAGS not in columns:
        return bool(levels)
    if levels:
        raise DatasetError(
            f"A table has either `{TAGS}`, several labels per image, or one label in `label` or "
            f"`level_0`, `level_1`, ..., but {path} has both: {', '.join([TAGS, *levels])}; take "
            "one of them out."
        )
    if named:
        raise DatasetError(
            f"Only labels of which an image has one have levels, but {path} has `{TAGS}`, several "
            "per image; leave --levels out."
        )
    marks = [mark for mark in _MARKS if mark in columns]
    if marks:
        raise DatasetError(
            f"Queries and gallery are for images with one label, but {path} has `{TAGS}` and "
            f"{' and '.join(f'`{mark}`' for mark in marks)}; take {'them' if marks[1:] else 'it'} "
            "out."
        )
    return True


def own_columns(path: Path, columns: list[str], named: tuple[str, ...] | None) -> list[str]:
    """Returns the columns of labels that have names of their own; none if none is named."""
    found = [name for name in named or () if name in columns]
    if not found:
        return []
    other = next((name for name in named or () if name in ("path", TAGS, *_OPTIONAL)), None)
    if other is not None:
        raise DatasetError(
            f"The column `{other}` of a table is never a level, but --levels names it; leave it "
            "out there, or rename the column."
        )
    missing = [name for name in named or () if name not in columns]
    if missing:
        raise DatasetError(
            f"--levels names the columns of labels, but of {', '.join(named or ())} the table "
            f"{path} has no {' and no '.join(missing)}; it has: {', '.join(columns)}."
        )
    return found


def level_columns(
    path: Path, columns: list[str], named: tuple[str, ...] | None = None
) -> list[str]:
    """Returns the columns of the label path, coarsest first; none if there are none."""
    if own := own_columns(path, columns, named):
        return own
    numbered = sorted(filter(_LEVEL.fullmatch, columns), key=_number)
    if numbered and [_number(name) for name in numbered] != list(range(len(numbered))):
        raise DatasetError(f"Columns level_0, level_1, ... of {path} have a gap: {numbered}.")
    if numbered and "label" in columns:
        raise DatasetError(
            f"A table has either `label` or `level_0`, `level_1`, ..., but {path} has both: "
            f"{', '.join(['label', *numbered])}; take one of them out."
        )
    levels = numbered or [name for name in ("label",) if name in columns]
    if named and levels:
        check_num_levels(named, levels, path)
    return levels


def _number(level: str) -> int:
    return int(level.removeprefix("level_"))


def _fault(root: Path, row: Row, levels: list[str]) -> str | None:
    """Why a row cannot be used, if so."""
    cells, path = row.cells, row.cells["path"]
    if not path:
        return "empty path"
    if "\0" in path or not Path(os.path.realpath(root / path)).is_relative_to(root):
        return "path out of the table's folder"
    if cells.get("split", "").lower() not in ("", *_SPLITS):
        return f"split is none of {', '.join(_SPLITS)}"
    if row.tags is None:
        return f"{TAGS} are neither text nor a list of texts"
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


def _tag_notes(path: Path, rows: list[Row]) -> Iterator[Note]:
    """Yields what is suspicious about the tags of usable rows, which must have one at least."""
    tagged = [row.tags for row in rows if row.tags]
    if rows and not tagged:
        raise DatasetError(
            f"Some images must have a label, but `{TAGS}` is empty in all rows of {path}; give "
            f"images their labels, with '{SEPARATOR}' between them."
        )
    if tagged and all(len(tags) == 1 for tags in tagged):
        longest = max((tag for (tag,) in tagged), key=len)
        yield Note(
            f"no image has more than one tag; the longest is '{longest:.60}', and '{SEPARATOR}' "
            "would part several in a cell"
        )


def _check_marks(path: Path, rows: list[dict[str, str]], held_out: bool) -> None:
    """Raises unless the rows that are tested, or else all, have a query and a gallery."""
    tested = [cells for cells in rows if _split(cells, held_out).lower() == "test"]
    for mark, what in zip(_MARKS, ("searched with", "found"), strict=True):
        if rows and not any(is_marked(cells, mark) for cells in tested or rows):
            raise DatasetError(
                f"Some images must be {what}, but `{mark}` is false in all {'test ' * bool(tested)}"
                f"rows of {path}; set it to true, or leave it empty, where it may be."
            )

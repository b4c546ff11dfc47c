"""A Hugging Face image folder: metadata.csv, .jsonl or .parquet with file_name and labels.

The metadata lie at the top or in folders called train, validation and test (or another name that
Hugging Face has for them), and `file_name` is relative to them. Other columns are those of a table
(see table.py), such as `label`, `split` and `tags`, which may be lists in .jsonl too, or columns of
labels that --levels names, the coarsest first. Without
`split`, two or more such folders around all images give it. Integers of a ClassLabel stay integers.
Images that are not listed are left out.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from hsearch.data.images import SUFFIXES
from hsearch.data.records import SPLITS, VALIDATION, LevelNames, Note, Problem, Record
from hsearch.data.sources import table
from hsearch.data.tables import TAGS, Row, read_table, row_of
from hsearch.errors import DatasetError

NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


def metadata_files(folder: Path) -> list[Path]:
    """Returns the metadata at the top of a folder, else those in the folders of its splits."""
    top = [folder / name for name in NAMES if (folder / name).is_file()]
    below = (file for file in sorted(folder.glob("*/metadata.*")) if file.name in NAMES)
    return top or [file for file in below if file.is_file() and _split(file.parent.name)]


def records(
    path: Path, levels: tuple[str, ...] | None = None
) -> Iterator[Record | Problem | Note | LevelNames]:
    """Yields the rows of all metadata below `path`.

    Args:
        path: The folder.
        levels: Columns of labels, coarsest first, or else names of the levels.
    """
    files = metadata_files(path)
    if not files or len({file.parent for file in files}) != len(files):
        raise DatasetError(
            f"A Hugging Face image folder needs one of {', '.join(NAMES)} at its top, or one in "
            f"each of train, validation and test, but {path} has "
            f"{', '.join(str(file.relative_to(path)) for file in files) or 'none'}."
        )
    given, rows = _read_all(path, files, levels)
    columns = ["path", *(name for name in given if name not in ("file_name", "path"))]
    unknown = table.ignored_columns(files[0], columns, levels)
    ignored = [*(["path"] if "path" in given else []), *unknown]
    if ignored:
        yield Note(f"ignored columns: {', '.join(name or '(no name)' for name in ignored)}")
    if "split" not in columns:
        _add_splits(rows)
    found = list(table.row_records(files[0], path, columns, rows, levels))
    yield from found
    others = _unlisted(item.image for item in found if isinstance(item, Record))
    if others:
        yield Note(f"left out {len(others)} images that are not listed, such as {others[0]}")


def _read_all(
    folder: Path, files: list[Path], levels: tuple[str, ...] | None
) -> tuple[list[str], list[Row]]:
    """The columns of all files, which must be the same, and their rows, with paths."""
    first: list[str] = []
    every: list[Row] = []
    for file in files:
        columns, rows = _read_jsonl(file) if file.suffix == ".jsonl" else read_table(file)
        if "file_name" not in columns or not table.has_labels(file, columns, levels):
            raise DatasetError(
                "The metadata of images need the column `file_name` and either `label`, or "
                f"`level_0`, `level_1`, ..., or columns that --levels names, or `{TAGS}`; {file} "
                f"has: {', '.join(columns)}."
            )
        first = first or columns
        if set(columns) != set(first):
            raise DatasetError(
                f"All metadata must have the same columns, but {files[0]} has {', '.join(first)} "
                f"and {file} has {', '.join(columns)}."
            )
        for row in rows:
            name = row.cells.pop("file_name", "")
            row.cells["path"] = (file.parent.relative_to(folder) / name).as_posix() if name else ""
        every += rows
    return first, every


def _read_jsonl(path: Path) -> tuple[list[str], list[Row]]:
    """The keys of all objects, and one row per line that is not empty."""
    rows: list[Row] = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
            if line.strip():
                content = json.loads(line)
                if not isinstance(content, dict):
                    raise DatasetError(f"Line {number} of {path} must be a JSON object.")
                rows.append(row_of(number, content))
    except json.JSONDecodeError as error:
        raise DatasetError(f"Line {number} of {path} is no JSON: {error.msg}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"The metadata {path} cannot be read as UTF-8: {error}.") from None
    except (RecursionError, ValueError):
        raise DatasetError(
            f"Line {number} of {path} nests too deep, or a number is too long."
        ) from None
    if not rows:
        raise DatasetError(f"The metadata {path} have no rows.")
    columns = list(dict.fromkeys(key for row in rows for key in row.cells))
    empty = dict.fromkeys(columns, "")
    return columns, [replace(row, cells=empty | row.cells) for row in rows]


def _add_splits(rows: list[Row]) -> None:
    """Takes the folders at the top as splits, if all are called so and there are several."""
    tops = [PurePosixPath(row.cells["path"]).parts[:-1][:1] for row in rows]
    splits = [_split("".join(top)) for top in tops]
    if len(set(splits)) > 1 and all(splits):
        for row, split in zip(rows, splits, strict=True):
            row.cells["split"] = split


def _split(folder: str) -> str:
    """The split that a folder stands for, if any; the validation is one of its own here."""
    name = folder.lower()
    return "validation" if name in VALIDATION else SPLITS.get(name, "")


def _unlisted(images: Iterator[object]) -> list[Path]:
    """The images that lie beside the given ones, sorted."""
    listed = {image for image in images if isinstance(image, Path)}
    beside = (path for folder in {image.parent for image in listed} for path in folder.glob("*"))
    return sorted({path for path in beside if path.suffix.lower() in SUFFIXES} - listed)

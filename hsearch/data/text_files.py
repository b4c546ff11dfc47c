"""The text files of data sets: lists of words and JSON, of any system's line ends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hsearch.errors import DatasetError

_DIGITS = 18


def read_lines(path: Path, columns: int | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yields the number, from 1, and the words of every line of a text file that is not empty.

    Args:
        path: UTF-8, with the line ends of any system.
        columns: How many words each line must have; any number if not given. The last one takes
            the rest of the line, blanks included.

    Raises:
        DatasetError: The text is not UTF-8, or a line has fewer words.
    """
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        words = line.split() if columns is None else line.split(maxsplit=columns - 1)
        if not words:
            continue
        if columns is not None and len(words) != columns:
            raise DatasetError(
                f"Line {number} of {path} must have {columns} columns, but has {len(words)}."
            )
        yield number, [word.strip() for word in words]


def is_number(text: str) -> bool:
    """Returns whether a text is a number from 0 that fits 64 bits."""
    return len(text) <= _DIGITS and text.isascii() and text.isdecimal()


def read_json(path: Path, without: str | None = None) -> dict[str, Any]:
    """Returns the object that a JSON file holds.

    Args:
        path: UTF-8.
        without: A key that is dropped from all objects while reading, to save memory.

    Raises:
        DatasetError: The text is not UTF-8, not JSON, or holds something else than an object.
    """
    content = _parsed(path, without)
    if isinstance(content, dict):
        return content
    raise _not_a("object", path)


def read_json_list(path: Path) -> list[Any]:
    """Returns the list that a JSON file holds; raises as `read_json` does."""
    content = _parsed(path)
    if isinstance(content, list):
        return content
    raise _not_a("list", path)


def _parsed(path: Path, without: str | None = None) -> object:
    def lean(values: dict[str, Any]) -> dict[str, Any]:
        values.pop(without or "", None)
        return values

    try:
        return json.loads(_read_text(path), object_hook=lean if without else None)
    except json.JSONDecodeError as error:
        raise DatasetError(
            f"The file {path} must be JSON, but is not from line {error.lineno}, column "
            f"{error.colno} on ({error.msg}); get it from its official home again."
        ) from None
    except (RecursionError, ValueError):
        raise DatasetError(
            f"The file {path} must be JSON of ordinary depth and numbers, but nests too deep or "
            "has a number of thousands of digits; get it from its official home again."
        ) from None


def _not_a(kind: str, path: Path) -> DatasetError:
    return DatasetError(
        f"The file {path} must hold a JSON {kind}, but something else begins at line 1, column 1; "
        "get it from its official home again."
    )


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise DatasetError(f"The text {path} must be a file, but is none; get it again.")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DatasetError(
            f"The file {path} must be UTF-8 text, but is not; get it from its official home again."
        ) from None
    except OSError as error:
        raise DatasetError(f"The file {path} cannot be read: {error.strerror}.") from None

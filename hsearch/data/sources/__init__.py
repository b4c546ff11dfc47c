"""Data sets and layouts that can be prepared; the file name is the registry.

A source is one file here. The first line of its docstring says what it reads; `records` yields a
`Record` per image, a `Problem` for whatever cannot become one, and a `Note` for what the user
should know. It takes the path that the user
gave, or nothing if it needs no files. `LEVEL_NAMES`, if there, names the levels.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from hsearch.data.records import Note, Problem, Record
from hsearch.errors import DatasetError, did_you_mean


@dataclass(frozen=True)
class Source:
    """A loaded source.

    Attributes:
        name: Of its file.
        about: The first line of its docstring.
        level_names: Of the levels, if it names them.
        needs_path: Whether it reads files of the user.
    """

    name: str
    about: str
    level_names: tuple[str, ...] | None
    needs_path: bool
    _records: Callable[..., Iterator[Record | Problem | Note]]

    def records(self, path: Path | None) -> Iterator[Record | Problem | Note]:
        """Yields what the source finds; `path` is required if it `needs_path`."""
        return self._records(path) if self.needs_path else self._records()


def available_sources() -> list[str]:
    """Returns the names of all sources, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load_source(name: str) -> Source:
    """Returns the source of that name."""
    if name not in available_sources():
        raise DatasetError(f"Unknown source '{name}'; {did_you_mean(name, available_sources())}")
    module: ModuleType = importlib.import_module(f"{__name__}.{name}")
    return Source(
        name=name,
        about=(module.__doc__ or "").strip().splitlines()[0].rstrip("."),
        level_names=getattr(module, "LEVEL_NAMES", None),
        needs_path=bool(inspect.signature(module.records).parameters),
        _records=module.records,
    )

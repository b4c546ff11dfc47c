"""Data sets and layouts that can be prepared; the file name is the registry.

A source is one file here. The first line of its docstring says what it reads. `records` yields a
`Record` per image, a `Problem` for whatever cannot become one, and a `Note` for what the user
should know. It takes nothing if it needs no files, the `path` that the user gave if the layout is
the user's own, or the `layout` of a data set's official files, with `HOME`, the page of its owners,
for the message about missing ones; `TOTAL`, if there, is the number of images that the published
data set has, and another number is told. `LEVEL_NAMES`, if there, names the levels; of a layout of
the user's own, `records` takes the user's names as `levels` and yields them, or what it finds, as
`LevelNames`. Whether listed images lie inside the data's folder, exist and can be read, and
whether others lie beside them, is checked for all sources alike.

A file called `cub200.py` is the data set `cub200`. Where there are several data sets of one layout,
`VARIANTS` holds the keyword arguments of `records` by the name of each; `levels` among them names
the levels of that one.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from hsearch.data.layout import Found, open_layout
from hsearch.data.progress import Progress, silent
from hsearch.errors import DatasetError, did_you_mean


@dataclass(frozen=True)
class Source:
    """A loaded source.

    Attributes:
        name: Of the data set.
        about: The first line of its docstring.
        description: The rest of it.
        level_names: Of the levels, if it names them.
        home: The page of the data set's owners; None for layouts of a user's own.
        total: How many images the published data set has, if that is known.
        needs_path: Whether it reads files of the user.
        module: The name of its file.
    """

    name: str
    about: str
    description: str
    level_names: tuple[str, ...] | None
    home: str | None
    total: int | None
    needs_path: bool
    module: str
    _records: Callable[..., Found]
    _options: Mapping[str, Any]

    @property
    def is_own(self) -> bool:
        """Whether it reads a layout of users' own images, not of a published data set."""
        return self.needs_path and self.home is None

    @contextmanager
    def open(
        self,
        path: Path | None,
        scratch: Path,
        progress: Progress = silent,
        levels: tuple[str, ...] | None = None,
    ) -> Iterator[Found]:
        """Yields what the source finds; the images can be read until the end of the context.

        Args:
            path: The user's files, if it `needs_path`.
            scratch: A folder for what comes out of archives, which does not exist before and
                afterwards.
            progress: Is told how far archives are unpacked.
            levels: The user's names of the levels, if it `is_own`.
        """
        if path is None:
            yield self._records(**self._options)
        elif self.home is None:
            yield self._records(path, levels=levels, **self._options)
        else:
            with open_layout(path, self.name, self.home, scratch, progress) as layout:
                yield layout.checked(self._records(layout, **self._options))


def available_sources() -> list[str]:
    """Returns the names of all sources, sorted."""
    return sorted(_homes())


def load_source(name: str) -> Source:
    """Returns the source of that name."""
    if name not in _homes():
        raise DatasetError(f"Unknown source '{name}'; {did_you_mean(name, available_sources())}")
    module, options = _homes()[name]
    about, _, description = (module.__doc__ or "").partition("\n")
    first = next(iter(inspect.signature(module.records).parameters), None)
    return Source(
        name=name,
        about=about.strip().rstrip("."),
        description=description.strip(),
        level_names=options.get("levels", getattr(module, "LEVEL_NAMES", None)),
        home=getattr(module, "HOME", None),
        total=getattr(module, "TOTAL", None),
        needs_path=first in ("path", "layout"),
        module=module.__name__.rpartition(".")[2],
        _records=module.records,
        _options=options,
    )


@cache
def _homes() -> dict[str, tuple[ModuleType, Mapping[str, Any]]]:
    """Returns the module and the options of every source."""
    homes = {}
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        for name, options in getattr(module, "VARIANTS", {file.name: {}}).items():
            homes[name] = (module, options)
    return homes

"""Folders of this machine for files that nobody needs after the process that made them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def make_scratch(kind: str) -> Path:
    """Makes a new folder; those of the same kind that killed processes have left are removed."""
    prefix = _prefix(kind)
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if _is_left(path.name.removeprefix(prefix).split("-")[0]):
            shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))


def left_scratch() -> list[Path]:
    """Returns the folders of all kinds that killed processes have left, sorted."""
    own = f"hsearch-*-{_namespace()}-*"
    found = [path for path in Path(tempfile.gettempdir()).glob(own) if path.is_dir()]
    return sorted(path for path in found if _is_left(path.name.split("-")[3]))


@contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """Gives a new folder during the context."""
    folder = make_scratch(kind)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prefix(kind: str) -> str:
    """Of a kind's folders, with the process namespace in which their numbers count."""
    return f"hsearch-{kind}-{_namespace()}-"


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino % 10_000


def _is_left(pid: str) -> bool:
    """Whether a folder that a process made is nobody's any more."""
    return pid.isdigit() and not Path("/proc", pid).exists()

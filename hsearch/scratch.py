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
        pid = path.name.removeprefix(prefix).split("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))


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
    return f"hsearch-{kind}-{os.stat('/proc/self/ns/pid').st_ino % 10_000}-"

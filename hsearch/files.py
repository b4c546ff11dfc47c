"""Files that appear whole or not at all, and locks between processes of one machine."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock by the file `path`, which exists only while somebody wants it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_same(file.fileno(), path):
                continue  # The previous holder removed the file that this one waited for.
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


@contextmanager
def locked_at_once(path: Path) -> Iterator[bool]:
    """Yields whether an exclusive lock by the file `path` could be had at once; holds it."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """As `locked`, but yields False at once where somebody else holds the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            if not _is_same(file.fileno(), path):
                continue
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)
            return


@contextmanager
def replacing(path: Path, *, several: bool = False) -> Iterator[Path]:
    """Yields a temporary path to write; on success it becomes `path`, otherwise it is removed.

    The temporary name is always the same, so whatever a killed process left is overwritten by the
    next one. Writers of the same path must hold a lock, unless each of `several` has a name of its
    own.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    own = f".{secrets.token_hex(4)}" if several else ""
    temporary = path.with_name(f".{path.name}{own}.tmp")
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that a crash at any moment leaves the old content or the new one."""
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:  # a full disk does not say which file it was
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_whole(path: Path, num_bytes: int) -> bool:
    """Returns whether there is a file of that size."""
    return path.is_file() and path.stat().st_size == num_bytes


def make_room(folder: Path, pattern: str, room: int) -> None:
    """Keeps the files of a cache below a size.

    Args:
        folder: Of the cache, whose lock must be held.
        pattern: What its files are called; others are left alone.
        room: In bytes; the least recently used files beyond it are deleted, and whatever killed
            processes left.
    """
    for left in folder.glob(".*.tmp"):
        left.unlink()
    files = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    used = 0
    for path in files:
        used += path.stat().st_size
        if used > room:
            path.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False

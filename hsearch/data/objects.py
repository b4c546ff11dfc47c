"""Objects at an address: put whole, fetched whole, listed and removed."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from os import environ
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from hsearch.addresses import CREDENTIALS, Address
from hsearch.errors import DatasetError
from hsearch.files import is_whole, replacing

T = TypeVar("T")

WAITS = (1.0, 5.0, 20.0)
"""Seconds before each further attempt of what is patient."""

_CHUNK = 16 * 1024**2
_CONNECT_SECONDS = 5
_SILENT_SECONDS = 10
"""Without an answer, before the second of three attempts."""
_ESSENCE_LENGTH = 120
_NO_ANSWER = "its server does not answer; check the network and the endpoint"
_ESSENCES = (
    ("NO_SUCH_BUCKET|Bucket .* not found", "there is no such bucket"),
    (
        "ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE|EXPIRED|PERMISSION_DENIED"
        "|UNAUTHENTICATED|access token|code: 40[13]",
        "access is denied, which depends on {credentials}",
    ),
    (
        "NETWORK_CONNECTION|UNAVAILABLE|CURL|curl|SLOW_DOWN|THROTTLING|INTERNAL_FAILURE"
        "|REQUEST_TIMEOUT|code: 50[0-9]",
        _NO_ANSWER,
    ),
    ("code: 30[17]|PermanentRedirect", "the bucket lies in another region; add ?region=NAME"),
)
"""What the long texts of the file systems come down to."""


class NoAnswerError(DatasetError):
    """A server that may answer another time."""


class Objects:
    """The objects of a folder at an address, by their names below it.

    Args:
        address: Of the folder.
        patient: Whether to bear with a server that does not answer for a while, as a training
            does; a person is rather told at once.
    """

    def __init__(self, address: Address, *, patient: bool = False) -> None:
        self.address = address
        self._waits = WAITS if patient else ()
        self._files: fs.FileSystem | None = None

    def names(self) -> list[str]:
        """Returns the names of all objects, sorted; none where there is no such folder."""
        return [name for name, kind in self._listed(recursive=True) if kind == fs.FileType.File]

    def children(self) -> list[str]:
        """Returns the names of the objects and folders that lie in the folder itself, sorted."""
        return [name for name, _ in self._listed(recursive=False)]

    def sizes(self) -> dict[str, int]:
        """Returns the length of every object by its name; none where there is no such folder."""

        def listed(files: fs.FileSystem, path: str) -> dict[str, int]:
            selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
            found = [i for i in files.get_file_info(selector) if i.type == fs.FileType.File]
            return {info.path[len(path) + 1 :]: info.size for info in found}

        return self._attempt("read", "", listed)

    def put(self, name: str, content: bytes | Path) -> None:
        """Writes an object, which appears whole or not at all.

        Args:
            name: Of the object.
            content: Or the file that holds it.
        """
        data = pa.memory_map(str(content)).read_buffer() if isinstance(content, Path) else content

        def write(files: fs.FileSystem, path: str) -> None:
            # One call writes it all: a stream that is given up in between would be completed.
            with _target(self.address, path) as target, files.open_output_stream(target) as stream:
                stream.write(data)
            if files.get_file_info(path).size != len(data):
                raise DatasetError(f"{self.address / name} is not what was written; try again.")

        self._attempt("written", name, write)

    def fetch(self, name: str, path: Path) -> bool:
        """Copies an object to a file, which appears whole; returns whether there is one."""

        def copy(files: fs.FileSystem, there: str) -> bool:
            info = files.get_file_info(there)
            if info.type != fs.FileType.File:
                return False
            with replacing(path) as temporary:
                fs.copy_files(
                    there,
                    str(temporary),
                    source_filesystem=files,
                    destination_filesystem=fs.LocalFileSystem(),
                    chunk_size=_CHUNK,
                )
                if not is_whole(temporary, info.size):
                    raise NoAnswerError(f"{self.address / name} came only in part; try again.")
            return True

        return self._attempt("read", name, copy)

    def read(self, name: str) -> bytes | None:
        """Returns the content of a small object; None if there is none."""

        def content(files: fs.FileSystem, path: str) -> bytes | None:
            try:
                with files.open_input_stream(path) as stream:
                    found: bytes = stream.read()
                    return found
            except FileNotFoundError:
                return None

        return self._attempt("read", name, content)

    def remove(self, name: str) -> None:
        """Removes an object, if it is there."""

        def delete(files: fs.FileSystem, path: str) -> None:
            with suppress(FileNotFoundError):
                files.delete_file(path)

        self._attempt("removed", name, delete)

    def clear(self) -> None:
        """Removes the folder with all that is in it, if it is there."""

        def delete(files: fs.FileSystem, path: str) -> None:
            with suppress(FileNotFoundError):
                files.delete_dir(path)

        self._attempt("removed", "", delete)

    def _listed(self, *, recursive: bool) -> list[tuple[str, fs.FileType]]:
        def listed(files: fs.FileSystem, path: str) -> list[tuple[str, fs.FileType]]:
            selector = fs.FileSelector(path, recursive=recursive, allow_not_found=True)
            start = len(path) + 1
            found = [(info.path[start:], info.type) for info in files.get_file_info(selector)]
            return sorted((name, kind) for name, kind in found if not name.endswith(".tmp"))

        return self._attempt("read", "", listed)

    def _attempt(self, done: str, name: str, action: Callable[[fs.FileSystem, str], T]) -> T:
        """Does something with an object, again after a while where no server answered."""
        address = self.address / name if name else self.address
        for wait in self._waits:
            with suppress(NoAnswerError):
                return self._act(address, done, action)
            time.sleep(wait)
        return self._act(address, done, action)

    def _act(self, address: Address, done: str, action: Callable[[fs.FileSystem, str], T]) -> T:
        with in_one_sentence(str(address), address, done):
            if self._files is None:
                self._files = connect(address)
            return action(self._files, address.path.rstrip("/"))


@contextmanager
def _target(address: Address, path: str) -> Iterator[str]:
    """Where to write an object so that it appears whole; others may write the same one."""
    if address.scheme != "file":
        yield path
        return
    with replacing(Path(path), several=True) as temporary:
        yield str(temporary)


def connect(address: Address) -> fs.FileSystem:
    """Returns the file system of an address; an absent server becomes an error in seconds."""
    options = dict(address.options)
    anonymous = options.pop("anonymous", "false") == "true"
    if address.scheme == "file":
        return fs.LocalFileSystem()
    if address.scheme == "gs":
        patience = timedelta(seconds=_SILENT_SECONDS)
        return fs.GcsFileSystem(anonymous=anonymous, retry_time_limit=patience, **options)
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if "endpoint_override" not in options and endpoint:
        parts = urlsplit(endpoint if "//" in endpoint else f"https://{endpoint}")
        options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    if "endpoint_override" not in options and "region" not in options:
        options["region"] = fs.resolve_s3_region(address.bucket)
    return fs.S3FileSystem(
        anonymous=anonymous,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_SILENT_SECONDS,
        **options,
    )


@contextmanager
def in_one_sentence(what: str, address: Address, done: str) -> Iterator[None]:
    """Turns the errors of a file system into one sentence: what cannot be done, and why."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        essence = _essence(error, address)
        kind = NoAnswerError if essence == _NO_ANSWER else DatasetError
        raise kind(f"{what} cannot be {done}: {essence}.") from None


def _essence(error: Exception, address: Address) -> str:
    text = str(getattr(error, "strerror", None) or error)
    for pattern, essence in _ESSENCES:
        if re.search(pattern, text):
            return essence.format(credentials=CREDENTIALS[address.scheme])
    first = re.split(r"\. Detail|\n", text)[0].rstrip(". ")
    return first if len(first) <= _ESSENCE_LENGTH else f"{first[:_ESSENCE_LENGTH]}..."

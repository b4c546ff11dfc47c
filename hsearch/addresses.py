"""Addresses of stores and folders that lie elsewhere, such as `s3://bucket/folder/name.arrow`.

They are the URIs of pyarrow's file systems. An address never holds credentials, because jobs, logs
and MLflow show it; those come from the environment. A place is a folder of this machine or an
address.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from hsearch.errors import DatasetError

STORE_SUFFIX = ".arrow"
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "file": (),
    "s3": ("anonymous", "endpoint_override", "region", "scheme"),
    "gs": ("anonymous", "endpoint_override", "project_id", "scheme"),
}
"""The kinds of addresses, and what may stand in each after the `?`."""

CREDENTIALS = {
    "file": "the permissions of the file",
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws/credentials",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
}
"""What decides whether an address may be read."""

_ADDRESS = re.compile(rf"({'|'.join(OPTIONS)}):|[a-z][a-z0-9+.-]+://", re.IGNORECASE)


@dataclass(frozen=True)
class Address:
    """Where a store or a folder lies.

    Attributes:
        uri: As it was given.
        scheme: A key of `OPTIONS`.
        path: `bucket/folder/name.arrow`, or the absolute path of a file or folder.
        options: What stood after the `?`.
    """

    uri: str
    scheme: str
    path: str
    options: Mapping[str, str]

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> "Address":
        before, mark, options = self.uri.partition("?")
        uri = f"{before.rstrip('/')}/{name}{mark}{options}"
        return replace(self, uri=uri, path=f"{self.path.rstrip('/')}/{name}")

    @property
    def bucket(self) -> str:
        """The first part of the path."""
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        """Of the data set."""
        return PurePosixPath(self.path).stem


Place = Path | Address
"""A folder of this machine, or one that lies elsewhere; both take `/ name`."""

P = TypeVar("P", Path, Address, Place)


def is_address(text: str) -> bool:
    """Returns whether the text means a URI, right or wrong, rather than a name or a path."""
    return _ADDRESS.match(text) is not None


def read_address(uri: str) -> Address:
    """Returns the address of a store.

    Raises:
        DatasetError: It is of no known kind, holds credentials, or names no `.arrow` file.
    """
    address = _read(uri, "store", f"/name{STORE_SUFFIX}")
    if not address.path.endswith(STORE_SUFFIX):
        raise DatasetError(
            f"The address of a store names a {STORE_SUFFIX} file, but {uri!r} does not."
        )
    return address


def read_place(text: str) -> Place:
    """Returns a folder of this machine, or the address of a folder.

    Raises:
        DatasetError: It is an address of no known kind, or holds credentials.
    """
    return read_folder(text) if is_address(text) else Path(text).expanduser()


def read_folder(uri: str) -> Address:
    """Returns the address of a folder; errors are those of `read_place`."""
    return _read(uri, "folder", "")


def shared_place() -> Place | None:
    """Returns where machines share data and studies: $HSEARCH_SHARED."""
    given = os.environ.get("HSEARCH_SHARED")
    return read_place(given) if given else None


def _read(uri: str, noun: str, name: str) -> Address:
    """Reads an address of a store or folder, whose form ends with such a name."""
    kind = uri.partition(":")[0]
    if kind.lower() not in OPTIONS:
        kinds = ", ".join(f"{scheme}:" for scheme in OPTIONS)
        raise DatasetError(f"The address of a {noun} begins with one of {kinds}, not '{kind}:'.")
    try:
        parts = urlsplit(uri, allow_fragments=False)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise _malformed(kind.lower(), noun, name) from None
    # A key may hold a slash, which would end the part before the `@` too early.
    hidden = "@" in parts.netloc + parts.query or ":" in parts.netloc
    if hidden or not set(options) <= set(OPTIONS[parts.scheme]):
        raise _secret(parts.scheme, noun)
    host, path = parts.netloc, unquote(parts.path)
    is_file = parts.scheme == "file"
    rooted = path.startswith("/") or not (name or is_file)
    if (host in ("", "localhost")) != is_file or not (rooted and f"{uri}{path}".isprintable()):
        raise _malformed(parts.scheme, noun, name)
    return Address(uri, parts.scheme, path if is_file else host + path, options)


def address_in(uri: str, name: str) -> Address:
    """Returns the address of the store of that name in a folder, or the address of a file itself.

    Args:
        uri: Of a folder, or of an `.arrow` file.
        name: Of the data set.
    """
    before, mark, options = uri.partition("?")
    if not before.endswith(STORE_SUFFIX):
        before = f"{before.rstrip('/')}/{name}{STORE_SUFFIX}"
    return read_address(f"{before}{mark}{options}")


def _malformed(scheme: str, noun: str, name: str) -> DatasetError:
    example = "file:///folder" if scheme == "file" else f"{scheme}://bucket/folder"
    return DatasetError(f"The address of a {noun} with {scheme}: must look like {example}{name}.")


def _secret(scheme: str, noun: str) -> DatasetError:
    options = ", ".join(OPTIONS[scheme]) or "nothing"
    return DatasetError(
        f"The address of a {noun} with {scheme}: must not hold credentials, and after a '?' only "
        f"{options}; credentials come from {CREDENTIALS[scheme]}."
    )

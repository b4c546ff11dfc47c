"""Addresses of stores that lie elsewhere, such as `s3://bucket/folder/name.arrow`.

They are the URIs of pyarrow's file systems. An address never holds credentials, because jobs, logs
and MLflow show it; those come from the environment.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
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
    """Where a store lies.

    Attributes:
        uri: As it was given.
        scheme: A key of `OPTIONS`.
        path: `bucket/folder/name.arrow`, or the absolute path of a file.
        options: What stood after the `?`.
    """

    uri: str
    scheme: str
    path: str
    options: Mapping[str, str]

    def __str__(self) -> str:
        return self.uri

    @property
    def bucket(self) -> str:
        """The first part of the path."""
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        """Of the data set."""
        return PurePosixPath(self.path).stem


def is_address(text: str) -> bool:
    """Returns whether the text means a URI, right or wrong, rather than a name or a path."""
    return _ADDRESS.match(text) is not None


def read_address(uri: str) -> Address:
    """Returns the address of a store.

    Raises:
        DatasetError: It is of no known kind, holds credentials, or names no `.arrow` file.
    """
    kind = uri.partition(":")[0]
    if kind.lower() not in OPTIONS:
        kinds = ", ".join(f"{scheme}:" for scheme in OPTIONS)
        raise DatasetError(f"The address of a store begins with one of {kinds}, not '{kind}:'.")
    try:
        parts = urlsplit(uri, allow_fragments=False)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise _malformed(kind.lower()) from None
    # A key may hold a slash, which would end the part before the `@` too early.
    if "@" in parts.netloc + parts.query or ":" in parts.netloc:
        raise _secret(parts.scheme)
    if not set(options) <= set(OPTIONS[parts.scheme]):
        raise _secret(parts.scheme)
    host, path = parts.netloc, unquote(parts.path)
    if not path.startswith("/") or (host in ("", "localhost")) != (parts.scheme == "file"):
        raise _malformed(parts.scheme)
    if not path.endswith(STORE_SUFFIX) or not uri.isprintable() or "\0" in path:
        raise DatasetError(
            f"The address of a store names a {STORE_SUFFIX} file, but {uri!r} does not."
        )
    whole = path if parts.scheme == "file" else host + path
    return Address(uri, parts.scheme, whole, options)


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


def _malformed(scheme: str) -> DatasetError:
    example = "file:///folder" if scheme == "file" else f"{scheme}://bucket/folder"
    return DatasetError(
        f"The address of a store with {scheme}: must look like {example}/name{STORE_SUFFIX}."
    )


def _secret(scheme: str) -> DatasetError:
    options = ", ".join(OPTIONS[scheme]) or "nothing"
    return DatasetError(
        f"The address of a store with {scheme}: must not hold credentials, and after a '?' only "
        f"{options}; credentials come from {CREDENTIALS[scheme]}."
    )

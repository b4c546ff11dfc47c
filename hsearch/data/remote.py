"""Stores at an address: sent whole, and copied once to every machine that opens them."""

import hashlib
import logging
import math
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from hsearch.addresses import STORE_SUFFIX, Address, address_in, read_address
from hsearch.data.objects import connect, in_one_sentence
from hsearch.data.progress import Count
from hsearch.data.store import Store
from hsearch.data.upload import upload
from hsearch.errors import DatasetError
from hsearch.files import is_whole, locked, make_room, replacing

DISK_SHARE = 0.5
"""Of the free space of a disk, that the copies on it may take together; a single one may more."""

_CHUNK = 16 * 1024**2
_THREADS = 4
_LINE_SECONDS = 10

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Found:
    """A store at an address, at one moment."""

    size: int
    version: str


def open_remote(uri: str, folder: Path) -> Store:
    """Opens this machine's copy of a store, which is made if there is none or another.

    Of several processes one makes it and the others wait. All copies together stay below a share
    of the disk, or below `copies_limit`: the least recently used ones go.

    Args:
        uri: Of the store.
        folder: Of the copies.
    """
    address = read_address(uri)
    with in_one_sentence(f"The store {address}", address, "read"):
        files = connect(address)
        found = _find(files, address)
        if found is None:
            raise DatasetError(
                f"There is no store {address}; check the address, or write it with `hsearch data "
                "prepare NAME --from PATH --to ADDRESS`."
            )
        path = folder / f"{address.name}-{found.version}{STORE_SUFFIX}"
        with locked(folder / ".lock"):
            if not is_whole(path, found.size):
                _fetch(files, address, found, path)
            os.utime(path)
            return Store.open(path)


def copies_limit() -> int | None:
    """Returns how many bytes all copies may take together: $HSEARCH_COPIES_GB, in 10^9 bytes."""
    given = os.environ.get("HSEARCH_COPIES_GB")
    if not given:
        return None
    try:
        limit = float(given)
    except ValueError:
        limit = math.nan
    if not 0 < limit < math.inf:
        raise DatasetError(f"HSEARCH_COPIES_GB must be a number above 0, but is '{given}'.")
    return int(limit * 10**9)


def new_address(uri: str, name: str, *, force: bool = False) -> Address:
    """Returns where a store will be written, which must be reachable and, without force, free.

    Args:
        uri: Of a folder, or of the `.arrow` file itself.
        name: Of the data set.
        force: Whether a store may be replaced.
    """
    address = address_in(uri, name)
    with in_one_sentence(f"The store {address}", address, "written"):
        if _find(connect(address), address) and not force:
            raise DatasetError(f"There is a store {address} already; replace it with --force.")
    return address


def send(path: Path, address: Address, progress: Count | None = None) -> None:
    """Writes a copy of a store to an address, where it appears whole or not at all.

    Args:
        path: Of the store.
        address: Where to; an old store is replaced.
        progress: Called with the megabytes done, and all.
    """
    with in_one_sentence(f"The store {address}", address, "written"):
        if address.scheme == "file":
            with replacing(Path(address.path)) as temporary:
                upload(path, connect, address, str(temporary), progress)
        else:
            upload(path, connect, address, address.path, progress)
        found = _find(connect(address), address)
    if found is None or found.size != path.stat().st_size:
        raise DatasetError(f"The store {address} is not what was written; write it again.")


def _find(files: fs.FileSystem, address: Address) -> _Found | None:
    info = files.get_file_info(address.path)
    if info.type == fs.FileType.Directory:
        raise DatasetError(f"A store is a file, but {address} is a folder; name the file in it.")
    if info.type == fs.FileType.NotFound:
        bucket = None if address.scheme == "file" else files.get_file_info(address.bucket)
        if bucket and bucket.type == fs.FileType.NotFound:
            raise DatasetError(f"The bucket '{address.bucket}' of {address} does not exist.")
        return None
    with files.open_input_file(address.path) as file:
        known = (address.uri, info.size, info.mtime_ns, sorted(file.metadata().items()))
    return _Found(info.size, hashlib.sha256(repr(known).encode()).hexdigest()[:16])


def _fetch(files: fs.FileSystem, address: Address, found: _Found, path: Path) -> None:
    folder = path.parent
    limit = copies_limit()
    if limit is not None and found.size > limit:
        raise DatasetError(
            f"The store {address} takes {_megabytes(found.size)} MB, but HSEARCH_COPIES_GB allows "
            f"copies of {_megabytes(limit)} MB together; set it higher."
        )
    copies = sum(copy.stat().st_size for copy in folder.glob(f"*{STORE_SUFFIX}"))
    share = int(DISK_SHARE * (shutil.disk_usage(folder).free + copies))
    make_room(folder, f"*{STORE_SUFFIX}", (share if limit is None else limit) - found.size)
    free = shutil.disk_usage(folder).free
    if free < found.size:
        raise DatasetError(
            f"The store {address} takes {_megabytes(found.size)} MB, but {folder} has "
            f"{_megabytes(free)} MB; make room, or set HSEARCH_DATA to a folder on another disk."
        )
    with replacing(path) as temporary:
        with files.open_input_file(address.path) as source:
            _copy(source, temporary, found.size, address)
        if _find(files, address) != found or not is_whole(temporary, found.size):
            raise DatasetError(f"The store {address} changed while it was fetched; try again.")
        try:
            Store.open(temporary)
        except DatasetError as error:
            raise DatasetError(str(error).replace(str(temporary), str(address))) from None


def _copy(source: pa.NativeFile, path: Path, size: int, address: Address) -> None:
    """Reads a file in parts, several at once, and says how far it is if that takes long."""
    said = time.monotonic()

    def put(start: int) -> int:
        os.pwrite(sink.fileno(), source.read_at(min(_CHUNK, size - start), start), start)
        return min(start + _CHUNK, size)

    with path.open("wb") as sink, ThreadPoolExecutor(_THREADS) as pool:
        try:
            for done in pool.map(put, range(0, size, _CHUNK)):
                if time.monotonic() - said >= _LINE_SECONDS:
                    said = time.monotonic()
                    parts = _megabytes(done), _megabytes(size)
                    logger.warning("fetching %s: %d of %d MB", address, *parts)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _megabytes(num_bytes: int) -> int:
    return -(-num_bytes // 10**6)

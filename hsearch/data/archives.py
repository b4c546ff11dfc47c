"""Archives as data sets are shipped in: unpacked so that nothing leaves the folder they go to."""

import lzma
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

from hsearch.data.progress import Count, Progress, silent
from hsearch.errors import DatasetError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_CHUNK = 2**20
_MEGABYTE = 10**6
# Beside these, gzip and bz2 raise an OSError without a number for bytes that make no sense.
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, ValueError, OverflowError),
)

_CheckRoom = Callable[[int], None]


def is_archive(path: Path) -> bool:
    """Returns whether the name is that of an archive that `unpack` reads."""
    return path.name.lower().endswith(SUFFIXES)


def stem(archive: Path) -> str:
    """Returns the name without what tells the kind of archive: `a.txt` of `a.txt.tar.gz`."""
    suffix = max((s for s in SUFFIXES if archive.name.lower().endswith(s)), key=len, default="")
    return archive.name[: len(archive.name) - len(suffix)]


def unpack(archive: Path, folder: Path, progress: Progress = silent) -> None:
    """Unpacks an archive into a folder; `progress` is told megabytes.

    Raises:
        DatasetError: The archive is damaged or encrypted, needs more room than there is, or has an
            entry that is no file or folder below its own: an absolute path, one through `..`, any
            link, a device.
    """
    count = partial(_count, progress, f"unpacking {archive.name} (MB)")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_room = partial(_check_room, archive, folder, shutil.disk_usage(folder).free)
        if archive.name.lower().endswith(".zip"):
            _unpack_zip(archive, folder, count, check_room)
        else:
            _unpack_tar(archive, folder, count, check_room)
    except tarfile.FilterError as error:
        raise _stranger(archive, error.tarinfo.name) from None
    except NotImplementedError as error:
        raise DatasetError(
            f"The archive {archive} is packed in a way that is not known here ({error}); unpack it "
            "by hand first."
        ) from None
    except _DAMAGED as error:
        raise _damaged(archive, error) from None
    except OSError as error:
        if error.errno is None:
            raise _damaged(archive, error) from None
        raise DatasetError(
            f"The archive {archive} cannot be unpacked: {error.strerror}; unpack it by hand and "
            "name the folder."
        ) from None


def _damaged(archive: Path, error: Exception) -> DatasetError:
    reason = str(error).partition("\n")[0].rstrip(": ")
    return DatasetError(f"The archive {archive} is damaged or cut off ({reason}); get it again.")


def _stranger(archive: Path, name: str) -> DatasetError:
    return DatasetError(
        f"An archive may only hold files below its own folder, but {archive} holds '{name}', which "
        "is none; get it from its official home again."
    )


def _count(progress: Progress, what: str, done: int, total: int) -> None:
    progress(what, done // _MEGABYTE, max(1, total // _MEGABYTE))


def _check_room(archive: Path, folder: Path, free: int, needed: int) -> None:
    if needed > free:
        raise DatasetError(
            f"The archive {archive} takes {-(-needed // _MEGABYTE)} MB or more unpacked, but the "
            f"disk of {folder} has {free // _MEGABYTE} MB left; make room, or set HSEARCH_DATA to "
            "a folder on another disk."
        )


def _unpack_tar(archive: Path, folder: Path, count: Count, check_room: _CheckRoom) -> None:
    """Counts what is read of the archive, as only its end tells how much there is to write."""
    total = archive.stat().st_size
    unpacked = 0

    def counted(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        nonlocal unpacked
        # Links go before the filter looks at them: it can be led astray by a chain of them that is
        # longer than any path may be (CVE-2025-4517).
        if not (member.isreg() or member.isdir()):
            raise _stranger(archive, member.name)
        unpacked += member.size
        check_room(unpacked)
        count(file.tell(), total)
        return tarfile.data_filter(member, path)

    with archive.open("rb") as file, tarfile.open(fileobj=file) as tar:
        tar.extractall(folder, filter=counted)
        _check_end(tar)


def _check_end(tar: tarfile.TarFile) -> None:
    """Raises unless zeros follow the last file: tarfile stops in silence at whatever follows."""
    stream = tar.fileobj
    assert stream is not None
    stream.seek(tar.offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("there is no mark at its end")
    while stream.read(_CHUNK):
        pass  # only at its very end a packed stream compares its checksum


def _unpack_zip(archive: Path, folder: Path, count: Count, check_room: _CheckRoom) -> None:
    done = 0
    with zipfile.ZipFile(archive) as file:
        total = sum(entry.file_size for entry in file.infolist())
        check_room(total)
        for entry in file.infolist():
            target = folder / _zip_path(archive, entry)
            if entry.filename.endswith(("/", "\\")):
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with file.open(entry) as source, target.open("wb") as sink:
                while chunk := source.read(_CHUNK):
                    sink.write(chunk)
                    done += len(chunk)
                    count(done, total)


def _zip_path(archive: Path, entry: zipfile.ZipInfo) -> PurePosixPath:
    """Where an entry goes to inside the folder."""
    name = PurePosixPath(entry.filename.replace("\\", "/"))
    is_link = stat.S_ISLNK(entry.external_attr >> 16)
    if name.is_absolute() or ".." in name.parts or ":" in "".join(name.parts[:1]) or is_link:
        raise _stranger(archive, entry.filename)
    if entry.flag_bits & 1:
        raise DatasetError(f"The archive {archive} is encrypted; unpack it by hand first.")
    return name

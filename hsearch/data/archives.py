"""Archives as data sets are shipped in: unpacked so that nothing leaves the folder they go to."""

import lzma
import stat
import tarfile
import zipfile
import zlib
from functools import partial
from pathlib import Path, PurePosixPath

from hsearch.data.progress import Count, Progress, silent
from hsearch.errors import DatasetError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_CHUNK = 2**20


def is_archive(path: Path) -> bool:
    """Returns whether the name is that of an archive that `unpack` reads."""
    return path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, folder: Path, progress: Progress = silent) -> None:
    """Unpacks an archive into a folder; `progress` is told megabytes.

    Raises:
        DatasetError: The archive is damaged, encrypted, or has an entry that would be written
            elsewhere: an absolute path, one through `..`, a link out of the folder, a device.
    """
    count = partial(_count, progress, f"unpacking {archive.name} (MB)")
    try:
        if archive.name.lower().endswith(".zip"):
            _unpack_zip(archive, folder, count)
        else:
            _unpack_tar(archive, folder, count)
    except tarfile.FilterError as error:
        raise DatasetError(
            f"An archive may only hold files below its own folder, but {archive} holds "
            f"'{error.tarinfo.name}', which is none; get it from its official home again."
        ) from None
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = str(error).partition("\n")[0].rstrip(": ")
        raise DatasetError(
            f"The archive {archive} is damaged or cut off ({reason}); get it again."
        ) from None


def _count(progress: Progress, what: str, done: int, total: int) -> None:
    progress(what, done // 10**6, max(1, total // 10**6))


def _unpack_tar(archive: Path, folder: Path, count: Count) -> None:
    """Counts what is read of the archive, as only its end tells how much there is to write."""
    total = archive.stat().st_size

    def counted(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
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


def _unpack_zip(archive: Path, folder: Path, count: Count) -> None:
    done = 0
    with zipfile.ZipFile(archive) as file:
        total = sum(entry.file_size for entry in file.infolist())
        for entry in file.infolist():
            name = PurePosixPath(entry.filename.replace("\\", "/"))
            is_link = stat.S_ISLNK(entry.external_attr >> 16)
            if name.is_absolute() or ".." in name.parts or ":" in name.parts[0] or is_link:
                raise DatasetError(
                    f"An archive may only hold files below its own folder, but {archive} holds "
                    f"'{entry.filename}', which is none; get it from its official home again."
                )
            if entry.flag_bits & 1:
                raise DatasetError(f"The archive {archive} is encrypted; unpack it by hand first.")
            target = folder / name
            if entry.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with file.open(entry) as source, target.open("wb") as sink:
                while chunk := source.read(_CHUNK):
                    sink.write(chunk)
                    done += len(chunk)
                    count(done, total)

"""Archives as data sets are shipped in: unpacked so that nothing leaves the folder they go to."""

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from hsearch.errors import DatasetError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def is_archive(path: Path) -> bool:
    """Returns whether the name is that of an archive that `unpack` reads."""
    return path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive into a folder.

    Raises:
        DatasetError: The archive is damaged, encrypted, or has an entry that would be written
            elsewhere: an absolute path, one through `..`, a link out of the folder, a device.
    """
    try:
        if archive.name.lower().endswith(".zip"):
            _unpack_zip(archive, folder)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
    except tarfile.FilterError as error:
        raise DatasetError(
            f"An archive may only hold files below its own folder, but {archive} holds "
            f"'{error.tarinfo.name}', which is none; get it from its official home again."
        ) from None
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DatasetError(
            f"The archive {archive} is damaged or cut off ({error}); get it again."
        ) from None


def _unpack_zip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as file:
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
                shutil.copyfileobj(source, sink, 2**20)

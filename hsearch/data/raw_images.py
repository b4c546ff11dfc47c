"""Images that lie as raw pixels in one large file, which is mapped instead of read."""

import gzip
import io
import mmap
import shutil
import tempfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hsearch.errors import DatasetError


@dataclass
class RawArray:
    """An array as a file has it: bytes, and how NumPy is to understand them."""

    shape: tuple[int, ...] = ()
    dtype: str = ""
    order: Literal["C", "F"] = "C"
    data: memoryview = field(default=memoryview(b""), repr=False)


def mapped(path: Path) -> memoryview:
    """Returns the bytes of a file without holding them in memory; those of a .gz unpacked."""
    if path.is_fifo():
        raise DatasetError(f"The file {path} cannot be read: it is a pipe.")
    try:
        with path.open("rb") as file:
            if path.suffix != ".gz":
                return _mapped(file)
            with gzip.open(file) as packed, tempfile.TemporaryFile() as whole:
                shutil.copyfileobj(packed, whole, 2**20)
                whole.flush()
                return _mapped(whole)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DatasetError(f"The file {path} is damaged or cut off; get it again.") from None
    except OSError as error:
        raise DatasetError(f"The file {path} cannot be read: {error.strerror}.") from None


def _mapped(file: BinaryIO) -> memoryview:
    if not file.seek(0, io.SEEK_END):
        return memoryview(b"")  # which cannot be mapped
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def as_png(pixels: NDArray[np.uint8]) -> bytes:
    """Returns the PNG file of (H, W) grey or (H, W, 3) RGB pixels."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()

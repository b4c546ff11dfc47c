"""One image file, checked and made ready for the store. Pillow opens JPEG, PNG and WEBP only."""

import io
import math
import os
import stat
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "WEBP")
SUFFIXES = (".jpeg", ".jpg", ".png", ".webp")
MAX_FILE_BYTES = 256 * 1024**2
MAX_ASPECT = 20
"""Long side by short side. Training resizes the short side, to 256 pixels say, so a line of
1 x 20000 pixels would become 256 x 5120000; at this limit an image takes 4 MB."""

# Measured on photographs with the short side at 256: decodes 1.6 times as fast as quality 95 with
# colours at full resolution, for a mean difference of 2.3 instead of 1.3 of 255 grey levels.
JPEG_QUALITY = 90
JPEG_SUBSAMPLING = "4:2:0"

# A JPEG that is at least twice too large is decoded at a half, a quarter or an eighth of its size,
# and resized from there: twice as fast. On photographs the mean difference is 1.8 of 255 grey
# levels, where the final JPEG itself makes 2.7.

_ORIENTATION_TAG = 0x0112
# Modes whose stored bytes any decoder turns into the same 8-bit RGB.
_PLAIN_MODES = ("1", "L", "P", "RGB")
_DAMAGED = (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError)


class BadImageError(Exception):
    """An image that cannot be used; the message is the reason in a few words."""


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An upright, opaque image: the bytes of a JPEG, PNG or WEBP file, and its size in pixels.

    `is_clipped` says that its box reached out of the image.
    """

    data: bytes
    height: int
    width: int
    is_clipped: bool = False


def resized_size(height: int, width: int, size: int) -> tuple[int, int]:
    """Returns height and width with the short side at `size`, as torchvision's Resize rounds."""
    if width <= height:
        return int(size * height / width), size
    return size, int(size * width / height)


def prepare_image(
    source: Path | bytes, size: int | None, box: tuple[int, int, int, int] | None = None
) -> EncodedImage:
    """Returns the image with the short side at most `size`; its bytes are kept where possible.

    They are kept as they are unless pixels must change: because of a box, a longer short side, an
    EXIF orientation, or colours that are not opaque 8-bit RGB or grey (transparency is laid on
    white, 16 bits are cut to 8). Changed pixels are encoded as PNG if the source is PNG, else as
    JPEG.

    Args:
        source: The file or its bytes.
        size: Largest short side; None for any.
        box: Left, top, right and bottom of the part to keep, in pixels of the upright image; what
            reaches out of it is cut off.

    Raises:
        BadImageError: It is no image, damaged, too large, longer than `MAX_ASPECT` allows, or the
            box has no pixel in it.
    """
    data = _read(source) if isinstance(source, Path) else source
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            upright, height, width = _load(image, size, box)
            clipped = box is not None and (width, height) != (box[2] - box[0], box[3] - box[1])
            if size is not None and min(height, width) > size:
                height, width = resized_size(height, width, size)
            elif upright is image and _is_plain(image):
                return EncodedImage(data, height, width)
            pixels = _to_rgb(upright).resize((width, height), Image.Resampling.BILINEAR)
            return EncodedImage(_encode(pixels, image.format), height, width, clipped)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise BadImageError(_bomb()) from None
    except UnidentifiedImageError:
        raise BadImageError("not a JPEG, PNG or WEBP image") from None
    except (*_DAMAGED, struct.error):
        raise BadImageError("truncated or damaged") from None


@contextmanager
def bombs_are_errors() -> Iterator[None]:
    """Makes Pillow's warning about too many pixels an error, in all threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadImageError("not a file")  # to open a pipe could wait for ever
        if status.st_size > MAX_FILE_BYTES:
            raise BadImageError(f"larger than {MAX_FILE_BYTES // 1024**2} MB")
        return path.read_bytes()
    except FileNotFoundError:
        raise BadImageError("missing") from None
    except (OSError, ValueError):
        raise BadImageError("unreadable") from None


def _load(
    image: Image.Image, size: int | None, box: tuple[int, int, int, int] | None
) -> tuple[Image.Image, int, int]:
    """The part to keep, upright, and the height and width that it has in the file.

    A JPEG that is much too large is decoded at a lower scale.
    """
    _check_size(image)
    width, height = image.size
    if size is not None and box is None:
        scale = size / min(image.size)
        image.draft(None, (math.ceil(scale * width), math.ceil(scale * height)))
    image.load()
    upright = _upright(image)
    if upright.size != image.size:
        width, height = height, width
    if box is None:
        return upright, height, width
    part = _cropped(upright, box)
    return part, part.height, part.width


def _check_size(image: Image.Image) -> None:
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and image.width * image.height > limit:
        raise BadImageError(_bomb())
    if max(image.size) > MAX_ASPECT * min(image.size):
        raise BadImageError(f"aspect ratio beyond {MAX_ASPECT}:1")


def _bomb() -> str:
    return f"decompression bomb (more than {(Image.MAX_IMAGE_PIXELS or 0) // 10**6} megapixels)"


def _upright(image: Image.Image) -> Image.Image:
    """The same object if no orientation is set; unreadable EXIF counts as none."""
    try:
        turned = image.getexif().get(_ORIENTATION_TAG, 1) in range(2, 9)
        return ImageOps.exif_transpose(image) if turned else image
    except (*_DAMAGED, struct.error):
        return image


def _cropped(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    left, top = max(0, box[0]), max(0, box[1])
    right, bottom = min(image.width, box[2]), min(image.height, box[3])
    if not (left < right and top < bottom):
        raise BadImageError("box outside the image")
    part = image.crop((left, top, right, bottom))
    _check_size(part)
    return part


def _is_plain(image: Image.Image) -> bool:
    return image.mode in _PLAIN_MODES and not image.has_transparency_data


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB")
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I"):
        wide = np.asarray(image).astype(np.int64)
        return Image.fromarray((wide >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")


def _encode(image: Image.Image, source_format: str | None) -> bytes:
    if source_format == "PNG":
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        return buffer.getvalue()
    with _memory_file() as file:
        image.save(file, "JPEG", quality=JPEG_QUALITY, subsampling=JPEG_SUBSAMPLING)
        file.seek(0)
        return file.read()


def _memory_file() -> io.FileIO | io.BytesIO:
    """Where the system has such a thing, a file: Pillow holds the GIL unless it writes to one."""
    if hasattr(os, "memfd_create"):
        return io.FileIO(os.memfd_create("image"), "w+")
    return io.BytesIO()

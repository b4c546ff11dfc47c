"""Decoded images of a store, from a cache that all processes of a machine share.

The cache is one file of raw uint8 pixels per store, size, set of rows and way of making them,
mapped into memory.
Where it does not fit the stated share of memory, images are decoded at every access instead.
"""

import hashlib
import logging
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from hsearch.data.decoding import decode, decoder_name
from hsearch.data.images import resized_size
from hsearch.data.library import MEMORY_SHARE, pixels_folder
from hsearch.data.store import Store
from hsearch.data.transforms import resize
from hsearch.errors import DatasetError
from hsearch.files import is_whole, locked, make_room, replacing

SUFFIX = ".pixels"
PIXELS_VERSION = 1
"""Of the layout and making of cached pixels; a change to either must raise it."""

_LOCK = ".lock"

logger = logging.getLogger(__name__)


class Pixels:
    """Images of some rows of a store with the short side resized, as uint8 (3, H, W).

    Attributes:
        rows: The rows that may be read, ascending.
        cached: Whether images come from the decoded cache.
    """

    def __init__(
        self,
        store: Store,
        rows: NDArray[np.int64],
        short_side: int,
        interpolation: str = "bilinear",
    ) -> None:
        self.rows = np.unique(rows)
        self._store, self._interpolation = store, interpolation
        heights, widths = store.sizes(self.rows)
        sizes = [
            resized_size(int(height), int(width), short_side)
            for height, width in zip(heights, widths, strict=True)
        ]
        self._heights, self._widths = np.array(sizes, dtype=np.int64).reshape(-1, 2).T
        self._ends = np.cumsum(3 * self._heights * self._widths)
        self._places = np.full(len(store), -1)
        self._places[self.rows] = np.arange(len(self.rows))
        self._cache: torch.Tensor | None = None
        self._file: Path | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> torch.Tensor:
        place = int(self._places[row])
        if place < 0:
            raise IndexError(f"These pixels were opened without row {row}.")
        height, width = int(self._heights[place]), int(self._widths[place])
        if self._cache is None:
            return self._decoded(row, height, width)
        end = int(self._ends[place])
        flat = self._cache[end - 3 * height * width : end]
        return flat.view(height, width, 3).permute(2, 0, 1)

    @property
    def cached(self) -> bool:
        """Whether images come from the decoded cache."""
        return self._cache is not None

    @property
    def num_bytes(self) -> int:
        """Size of all decoded images."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def sizes(self, rows: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns heights and widths of the given rows after resizing; nothing is decoded."""
        places = self._places[np.asarray(rows, dtype=np.int64)]
        if (places < 0).any():
            raise IndexError("These pixels were opened without one of the given rows.")
        return self._heights[places], self._widths[places]

    def write(self, path: Path) -> None:
        """Decodes all images into a flat file, over all cores."""

        def put(place: int) -> None:
            height, width = int(self._heights[place]), int(self._widths[place])
            image = self._decoded(int(self.rows[place]), height, width)
            flat = image.permute(1, 2, 0).contiguous().numpy()
            os.pwrite(file.fileno(), flat.data, int(self._ends[place]) - flat.size)

        with path.open("wb") as file, ThreadPoolExecutor(os.cpu_count()) as pool:
            try:
                for _ in pool.map(put, range(len(self))):
                    pass
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def use(self, path: Path) -> None:
        """Reads from the flat file from now on."""
        self._file = path
        # A private mapping: pages are shared with all readers, and nobody can change the file.
        self._cache = torch.from_file(
            str(path), shared=False, size=self.num_bytes, dtype=torch.uint8
        )

    def remove_cache(self) -> None:
        """Removes the flat file; who has it open can still read it."""
        if self._file is not None:
            with locked(self._file.parent / _LOCK):
                self._file.unlink(missing_ok=True)

    def _decoded(self, row: int, height: int, width: int) -> torch.Tensor:
        try:
            image = decode(self._store.encoded(row))
        except (OSError, RuntimeError, ValueError, SyntaxError) as error:
            raise DatasetError(
                f"Image '{self._store.ids[row]}' of {self._store.path} is damaged ({error}); "
                "prepare the data again."
            ) from None
        return resize(image, height, width, self._interpolation)


def open_pixels(
    store: Store,
    rows: NDArray[np.int64],
    resize: int,
    interpolation: str = "bilinear",
    *,
    within: NDArray[np.int64] | None = None,
    memory_share: float = MEMORY_SHARE,
    cache_folder: Path | None = None,
) -> Pixels:
    """Opens the images of `rows`, and decodes them into the shared cache if they fit.

    Of several processes one builds the cache and the others wait. Only images of `rows` are ever
    read. All cached files together stay below the same share: the least recently used ones go.

    Args:
        store: The open store.
        rows: Row numbers of the images that may be read.
        resize: Short side in pixels, at least 1; smaller images are enlarged.
        interpolation: `bilinear` or `bicubic`.
        within: A set of rows that holds these, such as all that a study trains and validates on: if
            it is in the cache, that is used; otherwise these are decoded at every access, because
            a file of their own would hold the same images again.
        memory_share: Of the physical memory, 0..1; 0 never uses the cache.
        cache_folder: By default `pixels_folder`.
    """
    pixels = Pixels(store, rows if within is None else within, resize, interpolation)
    folder = cache_folder or pixels_folder()
    made = f"{PIXELS_VERSION} {decoder_name()} {store.digest} {resize} "
    if interpolation != "bilinear":
        made += f"{interpolation} "
    key = hashlib.sha256(made.encode() + pixels.rows.tobytes())
    path = folder / f"{store.name}-{resize}-{key.hexdigest()[:16]}{SUFFIX}"
    allowed = int(memory_share * physical_memory())
    if within is not None and not is_whole(path, pixels.num_bytes):
        return Pixels(store, rows, resize, interpolation)
    if not 0 < pixels.num_bytes <= allowed:
        return pixels
    try:
        with locked(folder / _LOCK):
            if not is_whole(path, pixels.num_bytes):
                make_room(folder, f"*{SUFFIX}", allowed - pixels.num_bytes)
                if shutil.disk_usage(folder).free < 2 * pixels.num_bytes:
                    logger.warning("no room for the decoded cache folder=%s", folder)
                    return pixels
                with replacing(path) as temporary:
                    pixels.write(temporary)
            os.utime(path)
            pixels.use(path)
    except OSError as error:
        logger.warning("decoded cache not used folder=%s reason=%s", folder, error)
    return pixels


def physical_memory() -> int:
    """Returns the bytes of memory of this machine, or of its container if that has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else "max"
    return min(total, int(text)) if text.isdigit() else total

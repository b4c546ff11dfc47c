"""Cached features: what a frozen backbone makes of every image, computed once.

One file per view of the images, memory-mapped by all processes of a machine: a safetensors file
with the one tensor `features`, (N, ...) float32, whose metadata say what it was made from. While it
is being computed, finished parts lie in a folder beside it. All processes that want the same
features work on them together: each takes a part that nobody else has, and waits for the others at
the end. What a killed process was at is taken up by the next; its finished parts stay.

Machines with a shared place exchange their parts there, so that a cluster computes each part about
once. On one machine nothing but its own folder is needed.
"""

import hashlib
import json
import logging
import math
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hsearch.addresses import Address
from hsearch.data.objects import Objects
from hsearch.data.views import EVALUATED
from hsearch.errors import DatasetError
from hsearch.files import locked, locked_at_once, make_room, replacing

SUFFIX = ".features"
PART_IMAGES = 256
"""Images of one part: seconds of work, so that little is lost and groups end together."""

DISK_SHARE = 0.5
"""Of the free space of a disk, that all features on it may take together."""

FEATURES_VERSION = 1
"""Of the making of features; a change to it must raise this."""

_WAIT_SECONDS = 0.2
_STALE_SECONDS = 7 * 24 * 3600.0
_PARTS = ".parts"
_TENSOR = "features"
_ALIGNED = 64

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]
Compute = Callable[[int, IntArray], Tensor]
Progress = Callable[[int, int], None]

logger = logging.getLogger(__name__)


class Features:
    """What a frozen backbone makes of the views of some images.

    Args:
        rows: (N,) rows of the store, ascending.
        views: By number, the (N, ...) features of every view of these rows.
        num_views: Random views of every image; they have the numbers 1, 2, ...
    """

    def __init__(self, rows: IntArray, views: Mapping[int, FloatArray], num_views: int = 0) -> None:
        self.rows, self.num_views = rows, num_views
        self._views = dict(views)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one item."""
        return tuple(self._views[EVALUATED].shape[1:])

    def evaluated(self, rows: IntArray) -> Tensor:
        """Returns (n, ...) float32 features of rows as they are evaluated."""
        return torch.from_numpy(self._views[EVALUATED][self._positions(rows)])

    def of_views(self, rows: IntArray, views: IntArray) -> Tensor:
        """Returns (n, ...) float32 features of one view of each of n rows.

        Args:
            rows: (n,).
            views: (n,) the number of a view for each.
        """
        positions = self._positions(rows)
        found = np.empty((len(rows), *self.shape), dtype=np.float32)
        for view in np.unique(views):
            here = views == view
            found[here] = self._views[int(view)][positions[here]]
        return torch.from_numpy(found)

    def _positions(self, rows: IntArray) -> IntArray:
        positions = np.searchsorted(self.rows, rows)
        if len(rows) and not (
            positions.max() < len(self.rows) and np.array_equal(self.rows[positions], rows)
        ):
            raise IndexError("These features were opened without one of the given rows.")
        return positions


@dataclass(frozen=True)
class FeatureCache:
    """Where features of one kind are kept, and how they are made.

    Attributes:
        folder: Of all cached features of this machine.
        name: Of the data set, for the names of the files.
        made_from: What decides the features of every view: digests and settings, by name.
        augmented_by: What decides random views besides; the evaluated view is the same without.
        rows: (N,) rows of the images, ascending.
        shape: Of one item.
        compute: Makes the features of one view (by number) of some positions (n,) among the rows:
            (n, ...) float32 on the CPU.
        shared: Where machines exchange what they have computed; none for a single machine.
    """

    folder: Path
    name: str
    made_from: Mapping[str, str]
    augmented_by: str
    rows: IntArray
    shape: tuple[int, ...]
    compute: Compute
    shared: Address | None = None

    def open(
        self, views: Sequence[int], num_views: int = 0, progress: Progress | None = None
    ) -> Features | None:
        """Returns the features of some views, which are computed unless they are there.

        Args:
            views: Numbers of the views.
            num_views: How many random views of every image there are.
            progress: Told how many images, of how many, all processes have computed together; what
                it raises ends the work, and finished parts stay.

        Returns:
            None where they would take more room than there is.
        """
        missing = [view for view in views if self._opened(view) is None]
        if missing and not self._make_room(len(missing) * self.num_bytes):
            return None
        for place, view in enumerate(missing):
            self._compute(view, _shifted(progress, place, len(missing), len(self.rows)))
        found = {view: self._opened(view) for view in views}
        for view in views:
            os.utime(self._path(view))
        whole = {view: array for view, array in found.items() if array is not None}
        if len(whole) < len(found):
            raise DatasetError(
                f"Cached features in {self.folder} were removed while they were opened; run the "
                "same command again."
            )
        return Features(self.rows, whole, num_views)

    @property
    def num_bytes(self) -> int:
        """Size of the features of one view."""
        return 4 * len(self.rows) * math.prod(self.shape)

    def _key(self, view: int) -> dict[str, str]:
        rows = hashlib.sha256(self.rows.tobytes()).hexdigest()
        random = {} if view == EVALUATED else {"augmentation": self.augmented_by}
        key = {**self.made_from, **random, "rows": rows, "view": str(view)}
        return {"version": str(FEATURES_VERSION), **key}

    def _stem(self, view: int) -> str:
        text = json.dumps(self._key(view), sort_keys=True)
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}-view{view}"

    def _path(self, view: int) -> Path:
        return self.folder / f"{self._stem(view)}{SUFFIX}"

    def _header(self, view: int) -> bytes:
        """The beginning of the file: its tensor and what it was made from, as safetensors wants."""
        tensor = {
            "dtype": "F32",
            "shape": [len(self.rows), *self.shape],
            "data_offsets": [0, self.num_bytes],
        }
        text = json.dumps({"__metadata__": self._key(view), _TENSOR: tensor}).encode()
        text += b" " * (-(8 + len(text)) % _ALIGNED)
        return len(text).to_bytes(8, "little") + text

    def _opened(self, view: int) -> FloatArray | None:
        """The mapped features of a view; one that is damaged or of something else is removed."""
        path, header = self._path(view), self._header(view)
        if not path.is_file():
            return None
        with path.open("rb") as file:
            begins = file.read(len(header)) == header
        if not begins or path.stat().st_size != len(header) + self.num_bytes:
            logger.warning("cached features are damaged, and are computed again: %s", path)
            path.unlink(missing_ok=True)
            return None
        shape = (len(self.rows), *self.shape)
        # Copy on write: pages are shared with all readers, and nobody can change the file.
        return np.memmap(path, dtype=np.float32, mode="c", offset=len(header), shape=shape)

    def _make_room(self, num_bytes: int) -> bool:
        """Removes the features that were not used for longest; false if that is not enough."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / ".lock"):
            kept = sum(path.stat().st_size for path in self.folder.glob(f"*{SUFFIX}"))
            free = shutil.disk_usage(self.folder).free
            limit = features_limit()
            allowed = int(DISK_SHARE * (free + kept)) if limit is None else limit
            if num_bytes > min(allowed, free + kept):
                logger.warning(
                    "features of %d MB are not cached: %d MB are allowed in %s",
                    *(num_bytes // 10**6, allowed // 10**6, self.folder),
                )
                return False
            _remove_stale(self.folder)
            make_room(self.folder, f"*{SUFFIX}", allowed - num_bytes)
            return True

    def _compute(self, view: int, progress: Progress) -> None:
        """Computes the features of a view, together with all who want the same."""
        path, parts = self._path(view), self.folder / f"{self._stem(view)}{_PARTS}"
        parts.mkdir(parents=True, exist_ok=True)
        exchange = None if self.shared is None else Objects(self.shared / path.stem)
        count = -(-len(self.rows) // PART_IMAGES)
        while not path.exists():
            ready = {part for part in range(count) if _part(parts, part).exists()}
            progress(min(len(ready) * PART_IMAGES, len(self.rows)), len(self.rows))
            if len(ready) == count:
                self._join(view, parts, count)
                return
            if not self._take_a_part(view, parts, _rotated(set(range(count)) - ready), exchange):
                time.sleep(_WAIT_SECONDS)  # others are at work on all that is missing

    def _take_a_part(
        self, view: int, parts: Path, missing: list[int], exchange: Objects | None
    ) -> bool:
        """Fetches or computes one of the missing parts; false if others have all of them."""
        elsewhere = set(exchange.names()) if exchange else set()
        for part in missing:
            target = _part(parts, part)
            try:
                with locked_at_once(target.with_suffix(".lock")) as mine:
                    if self._path(view).exists():
                        return True  # joined meanwhile, and the parts are being removed
                    if not mine or target.exists():
                        continue
                    if exchange and target.name in elsewhere:
                        exchange.fetch(target.name, target)
                    else:
                        positions = np.arange(len(self.rows))[part * PART_IMAGES :][:PART_IMAGES]
                        content = self.compute(view, positions).contiguous().numpy().tobytes()
                        with replacing(target) as temporary:
                            temporary.write_bytes(content)
                        if exchange:
                            exchange.put(target.name, content)
                    return True
            except FileNotFoundError:  # the folder is gone: somebody has joined the parts
                return True
        return False

    def _join(self, view: int, parts: Path, count: int) -> None:
        """Makes the file of a view from its parts; of several processes one does."""
        path = self._path(view)
        with locked(self.folder / f".{path.name}.lock"):
            if path.exists():
                return
            with replacing(path) as temporary, temporary.open("wb") as file:
                file.write(self._header(view))
                for part in range(count):
                    file.write(_part(parts, part).read_bytes())
            shutil.rmtree(parts, ignore_errors=True)
        if self._opened(view) is None:
            raise DatasetError(
                f"The parts of {path} do not fit together; they were removed, so run the same "
                "command again."
            )


def features_limit() -> int | None:
    """Returns how many bytes all features may take: $HSEARCH_FEATURES_GB, in 10^9 bytes."""
    given = os.environ.get("HSEARCH_FEATURES_GB")
    if not given:
        return None
    try:
        limit = float(given)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise DatasetError(f"HSEARCH_FEATURES_GB must be a number of at least 0, but is '{given}'.")
    return int(limit * 10**9)


def _part(parts: Path, number: int) -> Path:
    return parts / f"{number:06d}.part"


def _rotated(parts: set[int]) -> list[int]:
    """Parts in an order that begins elsewhere for every process."""
    ordered = sorted(parts)
    own = f"{socket.gethostname()} {os.getpid()}".encode()
    start = int.from_bytes(hashlib.sha256(own).digest()[:4], "little") % len(ordered)
    return ordered[start:] + ordered[:start]


def _shifted(progress: Progress | None, place: int, places: int, images: int) -> Progress:
    """Progress in one of several views as progress in all."""

    def told(done: int, total: int) -> None:
        if progress is not None:
            progress(place * images + done, places * images)

    return told


def _remove_stale(folder: Path) -> None:
    """Removes parts that nobody has gone on with for a week."""
    for parts in _folders(folder):
        newest = max((file.stat().st_mtime for file in parts.iterdir()), default=0.0)
        if time.time() - max(newest, parts.stat().st_mtime) > _STALE_SECONDS:
            shutil.rmtree(parts, ignore_errors=True)


def _folders(folder: Path) -> Iterator[Path]:
    yield from (path for path in folder.glob(f"*{_PARTS}") if path.is_dir())

"""The store: one memory-mapped Arrow IPC file that holds a whole data set.

One row per image, sorted by class and then by id: `id`, `class`, `split`, `is_query`,
`is_gallery`, `height`, `width` and `image` (the bytes of a JPEG, PNG or WEBP file, upright and
opaque). The schema's metadata key `hsearch` holds a JSON text with the format version, the name,
the label path of every class, the names of the levels, the digest and the provenance.

A store of multi-label data has a column `tags` too, the numbers of an image's labels among the
`tag_names` of the JSON text, and a single class that all images belong to.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from hsearch.data.header import KEY, Header
from hsearch.data.records import SEEN
from hsearch.errors import DatasetError
from hsearch.hierarchy import Hierarchy


@dataclass(frozen=True, eq=False)
class Store:
    """An open store. Opening it reads labels and sizes, but no image.

    Attributes:
        path: The Arrow file.
        name: Of the data set.
        digest: sha256 over ids, label paths, splits and image bytes, in hex digits.
        hierarchy: The label paths of its classes, which are sorted by their ids.
        classes: (N,) class of every row.
        split: (N,) see `Record`; empty where the source gave none.
        is_query: (N,) whether a row may be a query.
        is_gallery: (N,) whether a row may be retrieved.
        heights: (N,) in pixels.
        widths: (N,) in pixels.
        provenance: Where it came from and how it was made.
        tag_names: All labels of multi-label data, sorted; none otherwise.
    """

    path: Path
    name: str
    digest: str
    hierarchy: Hierarchy
    classes: NDArray[np.int64]
    split: NDArray[np.str_]
    is_query: NDArray[np.bool_]
    is_gallery: NDArray[np.bool_]
    heights: NDArray[np.int64]
    widths: NDArray[np.int64]
    provenance: dict[str, object]
    tag_names: tuple[str, ...]
    _ids: pa.ChunkedArray = field(repr=False)
    _tags: pa.ChunkedArray | None = field(repr=False)
    _images: list[pa.BinaryArray] = field(repr=False)
    _starts: NDArray[np.int64] = field(repr=False)

    @classmethod
    def open(cls, path: Path) -> "Store":
        """Opens the store at `path`."""
        table = _read(path)
        header = Header.from_json((table.schema.metadata or {}).get(KEY), path)
        images = table["image"].chunks
        return cls(
            path=path,
            name=header.name,
            digest=header.digest,
            hierarchy=Hierarchy.from_names(header.classes, header.level_names),
            classes=table["class"].to_numpy().astype(np.int64),
            split=table["split"].to_numpy().astype(np.str_),
            is_query=table["is_query"].to_numpy(),
            is_gallery=table["is_gallery"].to_numpy(),
            heights=table["height"].to_numpy().astype(np.int64),
            widths=table["width"].to_numpy().astype(np.int64),
            provenance=header.provenance,
            tag_names=tuple(header.tag_names),
            _ids=table["id"],
            _tags=table["tags"] if header.tag_names else None,
            _images=images,
            _starts=np.cumsum([0, *map(len, images)])[:-1],
        )

    def __len__(self) -> int:
        return len(self.classes)

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Store.open, (self.path,)

    @cached_property
    def ids(self) -> list[str]:
        """The id of every row."""
        ids: list[str] = self._ids.to_pylist()
        return ids

    @cached_property
    def tags(self) -> NDArray[np.bool_]:
        """(N, T) which of the T `tag_names` every image has; T is 0 where they have classes."""
        marks = np.zeros((len(self), len(self.tag_names)), dtype=np.bool_)
        if self._tags is not None:
            lists = self._tags.combine_chunks()
            rows = np.repeat(np.arange(len(self)), np.diff(lists.offsets.to_numpy()))
            marks[rows, lists.flatten().to_numpy()] = True
        return marks

    @property
    def level_names(self) -> list[str]:
        """What the levels are called, coarsest first; none where images have several labels."""
        return [] if self.tag_names else list(self.hierarchy.level_names)

    def label_path(self, label: int) -> tuple[str, ...]:
        """Returns the names on the path of one class, coarsest first."""
        path = self.hierarchy.paths[label]
        return tuple(names[int(i)] for names, i in zip(self.hierarchy.names, path, strict=True))

    def rows(self, classes: ArrayLike, *, seen: bool = False) -> NDArray[np.int64]:
        """Returns the row numbers of the images of the given classes, ascending.

        Images of the split `seen`, held out although their class is trained on, are never among
        the others: they come alone, if asked for.
        """
        held_out = self.split == SEEN
        return np.flatnonzero(np.isin(self.classes, np.asarray(classes)) & (held_out == seen))

    def encoded(self, row: int) -> memoryview:
        """Returns the bytes of one image file without copying them."""
        if not 0 <= row < len(self):
            raise IndexError(f"Row {row} is not in 0..{len(self) - 1}.")
        chunk = int(np.searchsorted(self._starts, row, side="right")) - 1
        image = self._images[chunk][row - int(self._starts[chunk])]
        return memoryview(image.as_buffer()).cast("B")

    def sizes(self, rows: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns heights and widths of the given rows, in pixels."""
        return self.heights[np.asarray(rows)], self.widths[np.asarray(rows)]


def _read(path: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except FileNotFoundError:
        raise DatasetError(
            f"The store {path} does not exist; `hsearch data list` shows those that do."
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(
            f"{path} is not a store, or it is damaged ({error}); prepare it again."
        ) from None

"""What a store says about itself: the JSON text in the metadata of its schema."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hsearch.errors import DatasetError

FORMAT_VERSION = 1

KEY = b"hsearch"
"""Of the header in the metadata of a store's schema."""

Row = tuple[str, Sequence[str], str, bool, bool, Sequence[str], bytes]
"""Id, label path, split, is_query, is_gallery, sorted tags and the image's sha256."""


@dataclass(frozen=True)
class Header:
    """The description of a store.

    Attributes:
        name: Of the data set.
        digest: `content_digest` of its rows.
        level_names: Coarsest first.
        classes: The label path of every class.
        provenance: Where it came from and how it was made.
        tag_names: All labels of multi-label data, sorted; none otherwise.
    """

    name: str
    digest: str
    level_names: Sequence[str]
    classes: Sequence[Sequence[str]]
    provenance: dict[str, object]
    tag_names: Sequence[str] = ()

    def to_json(self) -> bytes:
        """Returns the same text for the same header."""
        return json.dumps({"format_version": FORMAT_VERSION, **asdict(self)}).encode()

    @classmethod
    def from_json(cls, text: bytes | None, path: Path) -> "Header":
        """Reads the header of the store at `path`."""
        if text is None:
            raise DatasetError(
                f"{path} is an Arrow file, but not a store; make one with `hsearch data prepare`."
            )
        values = json.loads(text)
        version = values.pop("format_version")
        if version != FORMAT_VERSION:
            raise DatasetError(
                f"The store {path} has format version {version}, but this hsearch reads version "
                f"{FORMAT_VERSION}; prepare it again with `hsearch data prepare --force`."
            )
        return cls(**values)


def content_digest(rows: Iterable[Row]) -> str:
    """Returns the sha256 over ids, label paths, splits, tags and images, in hex digits."""
    total = hashlib.sha256()
    for *labels, tags, image in rows:
        total.update(json.dumps([*labels, list(tags)] if tags else labels).encode())
        total.update(image)
    return total.hexdigest()

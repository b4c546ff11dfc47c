"""Small images, folder trees and stores for the tests of this room."""

import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from hsearch.data.records import Problem, Record
from hsearch.data.store import Store
from hsearch.data.store_writer import write_store


def photo(seed: int, height: int = 40, width: int = 60) -> Image.Image:
    """A smooth colour picture: coarse noise, enlarged."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (4, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def encode(image: Image.Image, kind: str = "JPEG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def save(path: Path, seed: int = 0, **size) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = "PNG" if path.suffix == ".png" else "JPEG"
    path.write_bytes(encode(photo(seed, **size), kind))
    return path


def tree(root: Path, classes: Iterable[str], images: int = 3) -> Path:
    """An image folder tree; every image is different."""
    for number, name in enumerate(classes):
        for i in range(images):
            save(root / name / f"{i}.jpg", seed=100 * number + i)
    return root


def toy_records(classes: int = 16, images: int = 4) -> list[Record]:
    return [
        Record(
            id=f"{label:02d}-{i}",
            image=encode(photo(100 * label + i, 40 + 4 * i, 60 - 8 * i)),
            labels=(f"group-{label % 3}", f"class-{label:02d}"),
            order=label,
        )
        for label in range(classes)
        for i in range(images)
    ]


def toy_store(path: Path, records: Iterable[Record | Problem] | None = None, **options) -> Store:
    write_store(
        path, "toy", toy_records() if records is None else records, provenance={}, **options
    )
    return Store.open(path)

"""What the images of a store are, told by their sizes and colours."""

import io

import numpy as np
import pytest
from PIL import Image

from hsearch.data.image_kind import LOOKED_AT, image_kind
from hsearch.data.records import Record
from hsearch.data.store import Store
from hsearch.data.store_writer import write_store


def photo(rng, side=80):
    """Smooth colours with a little noise, as a camera sees them."""
    rows, columns = np.mgrid[0:side, 0:side] / side
    channels = [255 * np.abs(np.sin(rng.random() * 6 * rows + 5 * columns)) for _ in range(3)]
    return np.stack(channels, axis=2) + rng.normal(0, 4, (side, side, 3))


def grey_photo(rng, side=80):
    return photo(rng, side)[:, :, :1].repeat(3, axis=2)


def product(rng, side=80):
    """A photo of a thing before a white wall, which takes 3 of 4 pixels."""
    pixels = np.full((side, side, 3), 255.0)
    pixels[side // 4 : -side // 4, side // 4 : -side // 4] = photo(rng, side // 2)
    return pixels


def drawing(rng, side=80):
    pixels = np.full((side, side, 3), 255.0)
    for _ in range(8):
        top, left = rng.integers(0, side - 20, 2)
        pixels[top : top + 20, left : left + 3] = rng.integers(0, 2, 3) * 200
    return pixels


def store_of(tmp_path, draw, count=40, **further):
    rng = np.random.default_rng(0)
    records = []
    for number in range(count):
        file = io.BytesIO()
        pixels = draw(rng, **further).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(file, "PNG")
        records.append(Record(f"{number:03d}", file.getvalue(), (f"class-{number // 4:02d}",)))
    write_store(tmp_path / "made.arrow", "made", records, size=None, provenance={})
    return Store.open(tmp_path / "made.arrow")


@pytest.mark.parametrize(
    ("draw", "kind"),
    [(photo, "photo"), (grey_photo, "photo"), (product, "photo"), (drawing, "drawing")],
)
def test_colours_tell_photos_from_drawings(tmp_path, draw, kind):
    store = store_of(tmp_path, draw)
    assert image_kind(store, np.arange(len(store))) == kind


def test_images_of_few_pixels_are_tiny_and_are_not_opened(tmp_path, monkeypatch):
    store = store_of(tmp_path, photo, side=63)
    monkeypatch.setattr(Store, "encoded", None)
    assert image_kind(store, np.arange(len(store))) == "tiny"


def test_only_some_of_the_given_images_are_opened(tmp_path, monkeypatch):
    store = store_of(tmp_path, photo, count=80)
    opened, encoded = [], Store.encoded

    def look(self, row):
        opened.append(row)
        return encoded(self, row)

    monkeypatch.setattr(Store, "encoded", look)
    rows = np.arange(10, 60)
    assert image_kind(store, rows) == "photo"
    assert len(opened) == LOOKED_AT
    assert set(opened) <= set(rows.tolist())
    assert (opened[0], opened[-1]) == (10, 59)

"""Stores whose test images nobody can read."""

import shutil
from pathlib import Path

from hsearch.data.splits import split_store
from hsearch.data.store import Store


def without_test_images(store: Store, folder: Path) -> Store:
    """A copy of a store, under the same name, with every byte of its test images destroyed."""
    path = folder / store.path.name
    folder.mkdir()
    shutil.copy(store.path, path)
    content = bytearray(path.read_bytes())
    for row in split_store(store).test:
        image = bytes(store.encoded(int(row)))
        start = content.find(image)
        assert start >= 0
        content[start : start + len(image)] = bytes(len(image))
    path.write_bytes(content)
    return Store.open(path)

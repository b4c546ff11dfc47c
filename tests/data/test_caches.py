"""The caches are found where their makers put them."""

import numpy as np
import pytest
import torch

from hsearch.data.caches import caches
from hsearch.data.features import FeatureCache
from hsearch.data.library import features_folder
from hsearch.data.pixels import open_pixels
from hsearch.files import locked
from tests.data.toy import toy_store


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))
    return toy_store(tmp_path / "toy.arrow")


def names() -> dict[str, int]:
    return {cache.name: len(cache.paths()) for cache in caches()}


def test_what_is_cached_is_listed_whole_or_half_made(store):
    assert names() == {"pixels": 0, "features": 0, "copies": 0, "weights": 0}
    open_pixels(store, np.arange(4), 16)
    assert names() == {"pixels": 1, "features": 0, "copies": 0, "weights": 0}

    def interrupted(view, positions):
        if view == 1:
            raise KeyboardInterrupt
        return torch.zeros(len(positions), 3)

    made = FeatureCache(features_folder(), "toy", {}, "", np.arange(4), (3,), interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.open((0, 1), 1)
    assert names() == {"pixels": 1, "features": 2, "copies": 0, "weights": 0}


def test_a_cache_is_held_unless_somebody_is_writing_to_it(store):
    open_pixels(store, np.arange(4), 16)
    cache = caches()[0]
    with cache.held() as free:
        assert free
    with locked(cache.folder / ".lock"), cache.held() as free:
        assert not free
    assert [path.suffix for path in cache.folder.iterdir()] == [".pixels"]

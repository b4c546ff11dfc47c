"""Features are computed once, together, and survive whatever happens meanwhile."""

import os
import threading

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hsearch.addresses import read_folder
from hsearch.data import features as module
from hsearch.data.features import FeatureCache
from hsearch.errors import DatasetError

ROWS = np.array([2, 3, 5, 8, 9, 11, 12, 15])
SHAPE = (3,)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(module, "PART_IMAGES", 2)


def values(view, positions):
    """What a backbone might make of these images, different for every view."""
    return torch.from_numpy(
        ROWS[positions, None] + np.array([0.1, 0.2, 0.3]) + 100.0 * view
    ).float()


class Computing:
    """Counts the images it computes, and may break off."""

    def __init__(self, most=None):
        self.computed, self.most = [], most

    def __call__(self, view, positions):
        if self.most is not None and len(self.computed) + len(positions) > self.most:
            raise KeyboardInterrupt
        self.computed += [(view, int(position)) for position in positions]
        return values(view, positions)


def cache(folder, compute, shared=None, **changes):
    made_from = {"store": "abc", "weights": "1", **changes}
    return FeatureCache(folder, "birds", made_from, "flip", ROWS, SHAPE, compute, shared)


def test_every_view_is_computed_once_and_read_from_the_file(tmp_path):
    compute = Computing()
    first = cache(tmp_path, compute).open((0, 1, 2), num_views=2)
    again = cache(tmp_path, Computing(most=0)).open((0, 2), num_views=2)
    assert len(compute.computed) == len(set(compute.computed)) == 3 * len(ROWS)
    assert first.shape == SHAPE
    assert torch.equal(first.evaluated(np.array([9, 2])), values(0, np.array([4, 0])))
    drawn = first.of_views(np.array([5, 5, 3]), np.array([2, 1, 0]))
    assert torch.equal(
        drawn, torch.cat([values(v, np.array([p])) for v, p in [(2, 2), (1, 2), (0, 1)]])
    )
    assert torch.equal(again.of_views(ROWS, np.full(8, 2)), values(2, np.arange(8)))
    with pytest.raises(IndexError, match="without one of the given rows"):
        first.evaluated(np.array([4]))
    (file,) = tmp_path.glob("*-view0.features")
    assert torch.equal(load_file(file)["features"], values(0, np.arange(8)))
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".features"]


def test_finished_parts_survive_an_interruption(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        cache(tmp_path, Computing(most=4)).open((0,))
    rest = Computing()
    told = []
    found = cache(tmp_path, rest).open(
        (0,), progress=lambda done, total: told.append((done, total))
    )
    assert len(rest.computed) == 4
    assert told[0] == (4, 8)
    assert told[-1] == (8, 8)
    assert torch.equal(found.evaluated(ROWS), values(0, np.arange(8)))


def test_what_progress_raises_ends_the_work_between_parts(tmp_path):
    def pause(done, total):
        if done >= 2:
            raise TimeoutError

    compute = Computing()
    with pytest.raises(TimeoutError):
        cache(tmp_path, compute).open((0,), progress=pause)
    assert len(compute.computed) == 2


def test_several_who_want_the_same_share_the_work(tmp_path):
    meet = threading.Barrier(3)
    counts, found = [Computing() for _ in range(3)], []

    def work(compute):
        meet.wait()
        found.append(cache(tmp_path, compute).open((0, 1)).evaluated(ROWS))

    threads = [threading.Thread(target=work, args=(compute,)) for compute in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [image for compute in counts for image in compute.computed]
    assert len(done) == len(set(done)) == 2 * len(ROWS)
    assert all(torch.equal(each, values(0, np.arange(8))) for each in found)


@pytest.mark.parametrize("damage", ["cut", "empty", "foreign"])
def test_a_damaged_file_is_computed_again_with_a_warning(tmp_path, damage, caplog):
    cache(tmp_path, Computing()).open((0,))
    (file,) = tmp_path.glob("*.features")
    whole = file.read_bytes()
    file.write_bytes({"cut": whole[:-5], "empty": b"", "foreign": b"x" * len(whole)}[damage])
    compute = Computing()
    found = cache(tmp_path, compute).open((0,))
    assert len(compute.computed) == len(ROWS)
    assert "damaged, and are computed again" in caplog.text
    assert torch.equal(found.evaluated(ROWS), values(0, np.arange(8)))


def test_other_weights_or_data_have_features_of_their_own(tmp_path):
    cache(tmp_path, Computing()).open((0, 1))
    other = Computing()
    cache(tmp_path, other, weights="2").open((0,))
    assert len(other.computed) == len(ROWS)
    augmented = FeatureCache(
        tmp_path, "birds", {"store": "abc", "weights": "1"}, "no flip", ROWS, SHAPE, Computing()
    )
    compute = Computing()
    object.__setattr__(augmented, "compute", compute)
    augmented.open((0, 1))
    assert {view for view, _ in compute.computed} == {1}, "the evaluated view is the same"


def test_features_without_room_are_not_cached(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("HSEARCH_FEATURES_GB", "0.00000005")
    assert cache(tmp_path, Computing()).open((0,)) is None
    assert "are not cached" in caplog.text
    monkeypatch.setenv("HSEARCH_FEATURES_GB", "many")
    with pytest.raises(DatasetError, match="HSEARCH_FEATURES_GB must be a number"):
        cache(tmp_path, Computing()).open((0,))


def test_the_features_that_were_not_used_for_longest_go_first(tmp_path, monkeypatch):
    size = 0
    for number, weights in enumerate("ab"):
        cache(tmp_path, Computing(), weights=weights).open((0,))
        newest = max(tmp_path.glob("*.features"), key=lambda path: path.stat().st_ctime)
        os.utime(newest, (number, number))
        size = newest.stat().st_size
    cache(tmp_path, Computing(most=0), weights="a").open((0,))  # used again
    monkeypatch.setenv("HSEARCH_FEATURES_GB", str(2.1 * size / 10**9))
    cache(tmp_path, Computing(), weights="c").open((0,))
    assert len(list(tmp_path.glob("*.features"))) == 2
    cache(tmp_path, Computing(most=0), weights="a").open((0,))
    with pytest.raises(KeyboardInterrupt):
        cache(tmp_path, Computing(most=0), weights="b").open((0,))


def test_machines_exchange_parts_at_the_shared_place(tmp_path):
    shared = read_folder((tmp_path / "shared").as_uri())
    one, other = Computing(), Computing()
    with pytest.raises(KeyboardInterrupt):
        cache(tmp_path / "one", Computing(most=4), shared).open((0,))
    found = cache(tmp_path / "other", other, shared).open((0,))
    cache(tmp_path / "one", one, shared).open((0,))
    assert len(other.computed) == 4, "four images were computed on the first machine"
    assert not one.computed, "the rest came from the other machine"
    assert torch.equal(found.evaluated(ROWS), values(0, np.arange(8)))

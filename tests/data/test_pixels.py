import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional as tv

from hsearch.data import decoding
from hsearch.data import pixels as pixels_module
from hsearch.data.decoding import decode
from hsearch.data.pixels import Pixels, open_pixels, physical_memory
from hsearch.data.store import Store
from hsearch.errors import DatasetError
from tests.data.toy import toy_store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return toy_store(tmp_path_factory.mktemp("store") / "toy.arrow")


def all_rows(store: Store) -> np.ndarray:
    return np.arange(len(store))


@pytest.mark.parametrize("resize", [24, 40, 70])
@pytest.mark.parametrize("share", [0.0, 0.25])
def test_images_are_resized_as_torchvision_does(store, tmp_path, resize, share):
    rows = np.array([0, 3, 17])
    pixels = open_pixels(store, rows, resize, memory_share=share, cache_folder=tmp_path)
    assert pixels.cached == (share > 0)
    heights, widths = pixels.sizes(rows)
    for row, height, width in zip(rows, heights, widths, strict=True):
        peer = tv.resize(decode(store.encoded(row)), [resize], antialias=True)
        image = pixels[int(row)]
        assert image.shape == (3, height, width) == peer.shape
        assert image.dtype == torch.uint8
        assert (image.int() - peer.int()).abs().max() <= 1


def test_the_cache_and_the_decoder_give_the_same_pixels(store, tmp_path):
    rows = all_rows(store)
    cached = open_pixels(store, rows, 32, cache_folder=tmp_path)
    decoded = open_pixels(store, rows, 32, memory_share=0)
    assert cached.cached
    assert not decoded.cached
    assert all(torch.equal(cached[row], decoded[row]) for row in rows.tolist())


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_other_rows_are_never_read(tmp_path, share):
    """The images of all other classes are destroyed, and nothing notices."""
    store = toy_store(tmp_path / "toy.arrow")
    rows = store.rows(np.arange(8))
    whole = store.path.read_bytes()
    for row in set(range(len(store))) - set(rows.tolist()):
        image = bytes(store.encoded(row))
        whole = whole.replace(image, b"\xff" * len(image))
    broken = tmp_path / "broken.arrow"
    broken.write_bytes(whole)
    pixels = open_pixels(
        Store.open(broken), rows, 32, memory_share=share, cache_folder=tmp_path / "cache"
    )
    assert all(pixels[row].shape[0] == 3 for row in rows.tolist())
    with pytest.raises(IndexError):
        pixels[int(rows.max()) + 1]
    with pytest.raises(IndexError):
        pixels.sizes([0, int(rows.max()) + 1])


def test_a_damaged_image_is_named(tmp_path):
    store = toy_store(tmp_path / "toy.arrow")
    image = bytes(store.encoded(5))
    whole = store.path.read_bytes().replace(image, b"\xff\xd8\xff" + bytes(len(image) - 3))
    store.path.write_bytes(whole)
    rows = np.array([5])
    with pytest.raises(DatasetError, match=r"'01-1'.*damaged"):
        open_pixels(Store.open(store.path), rows, 32, cache_folder=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_one_file_serves_the_same_rows_in_any_order(store, tmp_path):
    open_pixels(store, np.array([4, 2, 2]), 32, cache_folder=tmp_path)
    (path,) = tmp_path.iterdir()
    before = path.stat().st_ino
    open_pixels(store, np.array([2, 4]), 32, cache_folder=tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_ino == before
    open_pixels(store, np.array([2, 5]), 32, cache_folder=tmp_path)
    open_pixels(store, np.array([2, 4]), 33, cache_folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_another_way_of_making_pixels_gets_its_own_file(store, tmp_path, monkeypatch):
    rows = np.array([2, 4])
    open_pixels(store, rows, 32, cache_folder=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(pixels_module, "PIXELS_VERSION", pixels_module.PIXELS_VERSION + 1)
        open_pixels(store, rows, 32, cache_folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr(decoding, "_decode_jpeg", None)
    by_pillow = open_pixels(store, rows, 32, cache_folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    assert torch.equal(by_pillow[4], open_pixels(store, rows, 32, memory_share=0)[4])


def test_a_file_of_the_wrong_length_is_made_anew(store, tmp_path):
    rows = np.array([2, 4])
    expected = open_pixels(store, rows, 32, cache_folder=tmp_path)[4].clone()
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"short")
    assert torch.equal(open_pixels(store, rows, 32, cache_folder=tmp_path)[4], expected)


def test_changing_a_tensor_changes_no_file(store, tmp_path):
    rows = np.array([2, 4])
    pixels = open_pixels(store, rows, 32, cache_folder=tmp_path)
    before = pixels[2].clone()
    pixels[2].zero_()
    assert torch.equal(open_pixels(store, rows, 32, cache_folder=tmp_path)[2], before)


def test_the_folder_stays_below_the_share(store, tmp_path, monkeypatch):
    """Room for two files: the one that was used least recently goes."""
    first, second, third = (np.array([row]) for row in (0, 1, 2))
    one = open_pixels(store, first, 32, memory_share=0).num_bytes
    two = open_pixels(store, second, 32, memory_share=0).num_bytes
    three = open_pixels(store, third, 32, memory_share=0).num_bytes
    monkeypatch.setattr(pixels_module, "physical_memory", lambda: one + two + three - 1)
    for rows in (first, second, first, third):
        assert open_pixels(store, rows, 32, memory_share=1.0, cache_folder=tmp_path).cached
        time.sleep(0.02)
    left = sorted(path.stat().st_size for path in tmp_path.iterdir())
    assert left == sorted([one, three])


def test_what_a_killed_builder_left_is_removed(store, tmp_path):
    (tmp_path / ".old.pixels.tmp").write_bytes(b"half")
    open_pixels(store, np.array([0]), 32, cache_folder=tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".pixels"]


def test_images_beyond_the_share_are_decoded_each_time(store, tmp_path, monkeypatch):
    monkeypatch.setattr(pixels_module, "physical_memory", lambda: 1000)
    pixels = open_pixels(store, all_rows(store), 32, cache_folder=tmp_path)
    assert not pixels.cached
    assert pixels[0].shape == (3, 32, 48)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_obstacle(store, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    pixels = open_pixels(store, all_rows(store), 32, cache_folder=tmp_path / "file" / "cache")
    assert not pixels.cached
    assert "decoded cache not used" in caplog.text


def test_memory_is_known():
    assert 2**28 < physical_memory() < 2**50


def test_of_several_one_builds_and_the_others_wait(store, tmp_path, monkeypatch):
    built = []
    write = Pixels.write

    def counted(self: Pixels, path: Path) -> None:
        built.append(path)
        write(self, path)

    monkeypatch.setattr(Pixels, "write", counted)
    with ThreadPoolExecutor(4) as pool:
        opened = pool.map(
            lambda _: open_pixels(store, all_rows(store), 48, cache_folder=tmp_path), range(4)
        )
        images = [pixels[63] for pixels in opened if pixels.cached]
    assert len(images) == 4
    assert all(torch.equal(image, images[0]) for image in images)
    assert len(built) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_no_rows_are_no_error(store, tmp_path):
    pixels = open_pixels(store, np.array([], dtype=np.int64), 32, cache_folder=tmp_path)
    assert len(pixels) == 0


def test_a_part_is_read_from_the_file_of_the_whole_and_makes_none_of_its_own(store, tmp_path):
    whole = np.arange(len(store))
    part = whole[2:5]
    alone = open_pixels(store, part, 24, within=whole, cache_folder=tmp_path / "cache")
    assert not alone.cached
    assert not (tmp_path / "cache").exists()
    made = open_pixels(store, whole, 24, cache_folder=tmp_path / "cache")
    files = list((tmp_path / "cache").iterdir())
    found = open_pixels(store, part, 24, within=whole, cache_folder=tmp_path / "cache")
    assert found.cached
    assert list((tmp_path / "cache").iterdir()) == files
    for row in part:
        assert torch.equal(found[row], made[row])
        assert torch.equal(found[row], alone[row])

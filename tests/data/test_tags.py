"""Stores of multi-label data."""

from dataclasses import replace

import numpy as np
import pytest

from hsearch.data import store_writer
from hsearch.data.records import Record
from hsearch.data.splits import split_store, store_splits
from hsearch.errors import DatasetError
from tests.data.toy import encode, photo, toy_records, toy_store

TAGS = (("dog", "cat"), ("cat", "tree", "cat"), (), ("dog",))


def records(tags=TAGS):
    return [
        Record(f"{i:02d}", encode(photo(i)), (), split="test" if i % 2 else "train", tags=found)
        for i, found in enumerate(tags)
    ]


def test_every_image_has_its_tags(tmp_path, monkeypatch):
    monkeypatch.setattr(store_writer, "_BATCH_BYTES", 1000)
    store = toy_store(tmp_path / "x.arrow", records())
    assert store.tag_names == ("cat", "dog", "tree")
    assert store.tags.astype(int).tolist() == [[1, 1, 0], [1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert store.split.tolist() == ["train", "test", "train", "test"]
    assert store.classes.tolist() == [0] * 4


def test_the_digest_follows_the_tags_but_not_their_order(tmp_path):
    store = toy_store(tmp_path / "x.arrow", records())
    turned = toy_store(tmp_path / "x.arrow", records([tags[::-1] for tags in TAGS]))
    other = toy_store(tmp_path / "x.arrow", records([*TAGS[:3], ("cat",)]))
    assert store.digest == turned.digest
    assert store.digest != other.digest


def test_one_label_path_per_image_is_no_multi_label_data(tmp_path):
    store = toy_store(tmp_path / "x.arrow")
    assert store.tag_names == ()
    assert store.tags.shape == (len(store), 0)


def test_label_paths_and_tags_do_not_mix(tmp_path):
    with pytest.raises(DatasetError, match=r"same depth, but found: 0 \(03\), 2"):
        toy_store(tmp_path / "x.arrow", [*records(), *toy_records(2)])
    with pytest.raises(DatasetError, match="same depth"):
        toy_store(tmp_path / "x.arrow", records([(), ()]))


def test_labels_of_bad_images_alone_are_too_few(tmp_path):
    found = [Record("bad", b"text", (), tags=("cat",)), *records([(), ()])]
    with pytest.raises(DatasetError, match="only images that cannot be used have one; correct"):
        toy_store(tmp_path / "x.arrow", found, skip_bad=True)
    assert not list(tmp_path.iterdir())


def test_images_of_the_same_bytes_and_other_tags_are_conflicts(tmp_path):
    image = encode(photo(0))
    found = [Record(str(i), image, (), tags=(tag,)) for i, tag in enumerate("aab")]
    report = store_writer.write_store(tmp_path / "x.arrow", "x", found, provenance={})
    assert report.conflicts == (("0", "1", "2"),)


def test_class_folds_are_refused(tmp_path):
    with pytest.raises(DatasetError, match="several labels each"):
        store_splits(toy_store(tmp_path / "x.arrow", records()))


def test_the_fewest_images_that_have_folds(tmp_path):
    found = [replace(each, split="") for each in records([*TAGS, ("cat",)])]
    splits = split_store(toy_store(tmp_path / "x.arrow", found))
    assert (len(splits.test), len(splits.trainval)) == (1, 4)
    assert [len(splits.fold(number).validation) for number in range(4)] == [1] * 4


def test_tags_are_numbers_of_all_rows(tmp_path):
    rng = np.random.default_rng(0)
    marks = rng.random((40, 12)) < 0.3
    marks[0] = True
    found = [tuple(f"tag-{t:02d}" for t in np.flatnonzero(row)) for row in marks]
    assert np.array_equal(toy_store(tmp_path / "x.arrow", records(found)).tags, marks)

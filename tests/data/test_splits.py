"""Whose classes are test classes."""

import dataclasses

import numpy as np
import pytest

from hsearch.data.records import LEVEL_TESTS, SEEN
from hsearch.data.splits import default_splits, split_store, store_splits
from hsearch.errors import ConfigError, DatasetError


def with_split(store, of_class):
    names = np.array([of_class(c) for c in store.classes])
    return dataclasses.replace(store, split=names)


def of_source(store, source):
    return dataclasses.replace(store, provenance={**store.provenance, "source": source})


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("folder", "stratified"),
        ("table", "stratified"),
        ("huggingface", "stratified"),
        ("cub200-family", "disjoint"),
        ("glyphs", "disjoint"),
        ("one of a later version", "disjoint"),
    ],
)
def test_splits_follow_the_source_of_the_data(toy_store, source, kind):
    store = of_source(toy_store, source)
    assert default_splits(store) == kind
    assert np.array_equal(store_splits(store).test, store_splits(store, kind).test)
    assert np.array_equal(split_store(store).test, store.rows(store_splits(store, kind).test))


def test_images_with_several_labels_have_one_way_whatever_their_source(label_store):
    assert default_splits(of_source(label_store, "table")) == "disjoint"


def test_own_classes_are_drawn_into_parts_that_are_alike(toy_store):
    """Colours change with every class and stripes with every fourth, which ranges would part."""
    splits = store_splits(of_source(toy_store, "folder"))
    assert np.bincount(toy_store.hierarchy.paths[splits.test, 0]).tolist() == [3] * 4
    assert splits.test.tolist() != list(range(12, 24))
    assert [len(fold.validation) for fold in splits.folds] == [3] * 4


def test_own_test_classes_stay_and_the_others_are_drawn_into_folds(toy_store):
    store = with_split(toy_store, lambda c: "test" if c >= 16 else "train")
    splits = store_splits(of_source(store, "table"))
    assert splits.test.tolist() == list(range(16, 24))
    colours = [toy_store.hierarchy.paths[fold.validation, 0] for fold in splits.folds]
    assert [sorted(found) for found in colours] == [[0, 1, 2, 3]] * 4
    ranges = store_splits(store).folds
    assert [f.validation.tolist() for f in splits.folds] != [f.validation.tolist() for f in ranges]


def test_held_out_images_have_no_say_in_the_draw(toy_store):
    """Which images are held out of a class that is trained on is decided by the user, not drawn."""
    split = np.where(toy_store.classes >= 16, "test", "train")
    few = np.where((toy_store.classes < 8) & (np.arange(len(toy_store)) % 6 > 1), SEEN, split)
    store = of_source(dataclasses.replace(toy_store, split=few), "table")
    images = [len(store.rows([c])) for c in range(24)]
    assert images == [2] * 8 + [6] * 16
    sums = [sum(images[c] for c in fold.validation) for fold in store_splits(store).folds]
    assert sums == [16] * 4


def test_second_half_is_the_test(toy_store):
    splits = store_splits(toy_store)
    assert splits.test.tolist() == list(range(12, 24))


def test_a_store_keeps_its_own_test_classes(toy_store):
    store = with_split(toy_store, lambda c: "test" if c % 3 == 0 else "train")
    splits = store_splits(store)
    assert splits.test.tolist() == list(range(0, 24, 3))
    assert len(splits.trainval) == 16
    with pytest.raises(ConfigError, match="mlrc"):
        store_splits(store, "mlrc")


def test_marks_without_test_are_refused(toy_store):
    with pytest.raises(DatasetError, match=r"marked train.* none is marked test; mark the test"):
        store_splits(with_split(toy_store, lambda c: "train"))


@pytest.mark.parametrize("mark", ["train", "test"])
def test_images_without_split_beside_marked_ones_are_refused(toy_store, mark):
    store = with_split(toy_store, lambda c: mark if c < 20 else "")
    empty = len(store.rows(range(20, 24)))
    with pytest.raises(DatasetError, match=f"{empty} of {len(store)} images have none"):
        store_splits(store)


def test_a_class_on_both_sides_is_refused(toy_store):
    rng = np.random.default_rng(0)
    store = with_split(toy_store, lambda c: rng.choice(["train", "test"]))
    with pytest.raises(DatasetError, match="never trained on"):
        store_splits(store)


def test_mlrc_goes_where_the_own_test_classes_are_the_second_half(toy_store):
    store = with_split(toy_store, lambda c: "test" if c >= 12 else "train")
    assert store_splits(store, "mlrc").test.tolist() == list(range(12, 24))


def test_every_set_of_level_tests_is_a_test(toy_store):
    store = with_split(toy_store, lambda c: LEVEL_TESTS[c % 3] if c >= 12 else "train")
    assert store_splits(store).test.tolist() == list(range(12, 24))


def test_held_out_images_come_alone(toy_store):
    split = np.where(np.arange(len(toy_store)) % 6 == 0, SEEN, "train")
    split = np.where(toy_store.classes >= 12, "test", split)
    store = dataclasses.replace(toy_store, split=split)
    assert store.rows([0, 1]).tolist() == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
    assert store.rows([0, 1], seen=True).tolist() == [0, 6]
    assert store_splits(store).test.tolist() == list(range(12, 24))
    with pytest.raises(DatasetError, match="'class-12' has no image to train on"):
        store_splits(dataclasses.replace(store, split=np.where(split == "test", SEEN, split)))

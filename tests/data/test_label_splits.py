"""Which images train, validate and test where they have several labels each."""

import dataclasses

import numpy as np
import pytest

from hsearch.data.records import Record
from hsearch.data.splits import labels_of, split_store, store_splits
from hsearch.errors import ConfigError, DatasetError
from hsearch.folds import ALL_CLASSES, NUM_FOLDS
from tests.data.toy import encode, photo, toy_store


def with_split(store, split):
    return dataclasses.replace(store, split=np.asarray(split, dtype=np.str_))


def without_marks(store):
    return with_split(store, [""] * len(store))


def test_folds_are_disjoint_and_cover_all_but_the_test(label_store):
    splits = split_store(label_store)
    assert splits.test.tolist() == np.flatnonzero(label_store.split == "test").tolist()
    validated = []
    for number in range(NUM_FOLDS):
        fold = splits.fold(number)
        assert np.intersect1d(fold.train, fold.validation).size == 0
        assert np.array_equal(np.union1d(fold.train, fold.validation), splits.trainval)
        assert np.intersect1d(splits.trainval, splits.test).size == 0
        assert (np.diff(fold.train) > 0).all()
        validated += fold.validation.tolist()
    assert sorted(validated) == splits.trainval.tolist() == list(range(120))


def test_every_fold_has_every_label_in_about_equal_shares(label_store):
    splits = split_store(label_store)
    whole = label_store.tags[splits.trainval].mean(axis=0)
    for number in range(NUM_FOLDS):
        fold = splits.fold(number)
        for rows in (fold.train, fold.validation):
            share = labels_of(label_store, rows).mean(axis=0)
            assert (share > 0).all()
            assert share == pytest.approx(whole, abs=0.1)


def test_a_fold_trains_all_labels_on_one_level(label_store):
    fold = split_store(label_store).fold(2)
    assert fold.hierarchy.num_levels == 1
    assert fold.hierarchy.names[-1] == label_store.tag_names
    assert fold.classes.tolist() == list(range(6))
    assert np.array_equal(fold.train_labels, label_store.tags[fold.train])
    assert fold.train_paths.shape == (90, 1)
    assert np.unique(fold.train_paths).tolist() == [0]


def test_the_fold_without_validation_trains_on_all_but_the_test(label_store):
    splits = split_store(label_store)
    fold = splits.fold(ALL_CLASSES)
    assert np.array_equal(fold.train, splits.trainval)
    assert fold.validation.size == 0
    assert np.array_equal(fold.train_labels, label_store.tags[splits.trainval])


def test_the_same_store_has_the_same_folds(label_store):
    for store in (label_store, without_marks(label_store)):
        one, other = split_store(store), split_store(store)
        assert np.array_equal(one.test, other.test)
        for number in range(NUM_FOLDS):
            assert np.array_equal(one.fold(number).train, other.fold(number).train)


def test_without_marks_a_fifth_of_all_images_with_all_labels_is_the_test(label_store):
    store = without_marks(label_store)
    splits = split_store(store)
    assert len(splits.test) == len(store) // 5 == 32
    assert np.array_equal(np.union1d(splits.trainval, splits.test), np.arange(len(store)))
    whole = store.tags.mean(axis=0)
    assert store.tags[splits.test].mean(axis=0) == pytest.approx(whole, abs=0.1)
    for number in range(NUM_FOLDS):
        fold = splits.fold(number)
        assert not np.isin(splits.test, [*fold.train, *fold.validation]).any()
        assert store.tags[fold.validation].any(axis=0).all()


def test_images_without_split_beside_marked_ones_are_refused(label_store):
    split = label_store.split.copy()
    split[:7] = ""
    with pytest.raises(DatasetError, match=r"7 of 160 images have none; mark them train or test"):
        split_store(with_split(label_store, split))


def test_marks_without_test_are_refused(label_store):
    with pytest.raises(DatasetError, match=r"none is marked test; mark the test images, or leave"):
        split_store(with_split(label_store, ["train"] * len(label_store)))


def test_marks_without_training_are_refused(label_store):
    with pytest.raises(DatasetError, match=r"'labels' has 160, of which 160 are marked test"):
        split_store(with_split(label_store, ["test"] * len(label_store)))


def test_the_ranges_of_classes_of_the_reality_check_are_refused(label_store):
    with pytest.raises(ConfigError, match=r"`mlrc` splits are of classes.*leave --splits out"):
        split_store(label_store, "mlrc")


@pytest.mark.parametrize("images", [1, 4])
def test_too_few_images_are_a_sentence(tmp_path, images):
    records = [Record(f"{i}", encode(photo(i)), (), tags=("a", "b")) for i in range(images)]
    store = toy_store(tmp_path / "few.arrow", records)
    with pytest.raises(DatasetError, match=f"at least 5 images.* but 'toy' has {images}"):
        split_store(store)


@pytest.mark.parametrize("kind", ["disjoint", "mlrc"])
def test_classes_are_split_as_they_were(toy_store, kind):
    splits, classes = split_store(toy_store, kind), store_splits(toy_store, kind)
    assert np.array_equal(splits.trainval, toy_store.rows(classes.trainval))
    assert np.array_equal(splits.test, toy_store.rows(classes.test))
    for number in (*range(NUM_FOLDS), ALL_CLASSES):
        fold, of_classes = splits.fold(number), classes.fold(number)
        assert np.array_equal(fold.classes, of_classes.train)
        assert np.array_equal(fold.train, toy_store.rows(of_classes.train))
        assert np.array_equal(fold.validation, toy_store.rows(of_classes.validation))
        named = [toy_store.label_path(label) for label in toy_store.classes[fold.train]]
        names = fold.hierarchy.names
        found = [
            tuple(names[level][label] for level, label in enumerate(path))
            for path in fold.train_labels
        ]
        assert found == named
        assert np.array_equal(fold.train_paths, fold.train_labels)

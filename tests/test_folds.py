import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsearch.errors import ConfigError
from hsearch.folds import NUM_FOLDS, class_splits
from tests import golden_files


def assert_sound(splits, num_classes):
    """What holds for all splits, whatever their kind."""
    assert np.array_equal(np.union1d(splits.trainval, splits.test), np.arange(num_classes))
    assert not np.intersect1d(splits.trainval, splits.test).size
    for fold in splits.folds:
        for part in (fold.train, fold.validation):
            assert np.array_equal(part, np.unique(part))
            assert np.isin(part, splits.trainval).all()
            assert part.size >= 2
        assert not np.intersect1d(fold.train, fold.validation).size


@given(st.integers(16, 500), st.sampled_from(["disjoint", "mlrc"]))
def test_folds_are_class_disjoint_and_never_see_test_classes(num_classes, kind):
    splits = class_splits(num_classes, splits=kind)
    assert_sound(splits, num_classes)
    assert len(splits.folds) == NUM_FOLDS
    assert splits.trainval.tolist() == list(range(num_classes // 2))


@given(st.integers(2, 8), st.integers(0, 100), st.sampled_from([0, 1]))
def test_validation_parts_partition_the_trainval_classes(num_folds, extra, odd):
    num_classes = 4 * num_folds + 2 * extra + odd
    splits = class_splits(num_classes, num_folds=num_folds)
    assert_sound(splits, num_classes)
    parts = [fold.validation for fold in splits.folds]
    assert np.array_equal(np.concatenate(parts), splits.trainval)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for fold in splits.folds:
        assert np.array_equal(np.union1d(fold.train, fold.validation), splits.trainval)


@given(st.data())
def test_a_data_set_may_name_its_test_classes(data):
    num_classes = data.draw(st.integers(10, 80))
    test = data.draw(st.sets(st.integers(0, num_classes - 1), min_size=1, max_size=num_classes - 8))
    splits = class_splits(num_classes, test_classes=list(test))
    assert_sound(splits, num_classes)
    assert splits.test.tolist() == sorted(test)


@given(st.integers(16, 500))
def test_mlrc_validates_on_an_eighth_of_all_classes(num_classes):
    splits = class_splits(num_classes, splits="mlrc")
    for fold in splits.folds:
        assert len(fold.validation) == num_classes // 8
        assert np.array_equal(np.union1d(fold.train, fold.validation), splits.trainval)


@pytest.mark.parametrize("name", golden_files.names("mlrc_splits*"))
def test_golden_mlrc_splits(name):
    meta, _ = golden_files.load(name)
    assert meta["cases"]
    for case in meta["cases"]:
        splits = class_splits(case["num_classes"], splits="mlrc")
        assert splits.trainval.tolist() == case["trainval"]
        assert splits.test.tolist() == case["test"]
        for fold, expected in zip(splits.folds, case["folds"], strict=True):
            assert fold.train.tolist() == sorted(expected["train"])
            assert fold.validation.tolist() == sorted(expected["val"])


def test_two_folds_of_the_smallest_data_set():
    splits = class_splits(8, num_folds=2)
    assert [(f.train.tolist(), f.validation.tolist()) for f in splits.folds] == [
        ([2, 3], [0, 1]),
        ([0, 1], [2, 3]),
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"num_classes": 15}, "need at least 8 classes besides the test classes, but 7 of 15"),
        ({"num_classes": 0}, "but 0 of 0 are left"),
        ({"num_classes": 40, "num_folds": 1}, "cannot have 1 folds"),
        ({"num_classes": 40, "num_folds": 3, "splits": "mlrc"}, "cannot have 3 folds"),
        (
            {"num_classes": 40, "test_classes": [1], "splits": "mlrc"},
            "names others as its own test",
        ),
        ({"num_classes": 40, "test_classes": [40]}, "test classes must lie in 0..39"),
        ({"num_classes": 40, "test_classes": []}, "at least one test class"),
        ({"num_classes": 40, "test_classes": list(range(33))}, "but 7 of 40 are left"),
    ],
)
def test_impossible_splits_end_in_a_sentence(arguments, sentence):
    with pytest.raises(ConfigError) as error:
        class_splits(**arguments)
    assert sentence in str(error.value)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hsearch.errors import ConfigError
from hsearch.folds import NUM_FOLDS, class_splits, multilabel_folds, stratified_splits
from hsearch.hierarchy import Hierarchy
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


@st.composite
def trees(draw, least=16, most=60):
    """Sorted label paths of one to three levels, some labels with many classes, and images."""
    num_levels = draw(st.integers(1, 3))
    labels = st.integers(0, draw(st.integers(0, 8))).map("abcdefghi".__getitem__)
    coarse = st.lists(st.tuples(*[labels] * (num_levels - 1)), min_size=least, max_size=most)
    names = [(*path, f"{number:02d}") for number, path in enumerate(draw(coarse))]
    images = st.lists(st.integers(1, 90), min_size=len(names), max_size=len(names))
    return sorted(names), draw(images)


def distances(hierarchy, parts):
    """For every part, coarser level and label: how far it is from an even share of the classes."""
    for level in range(hierarchy.num_levels - 1):
        counts = [np.bincount(hierarchy.paths[part, level], minlength=99) for part in parts]
        yield np.abs(counts - np.mean(counts, axis=0)).max()


def spread_labels(hierarchy, whole, num_parts):
    """The coarsest level of which all parts could have two labels; None if there is none."""
    for level in range(hierarchy.num_levels - 1):
        counts = np.bincount(hierarchy.paths[whole, level])
        if len(whole) - counts.max() >= num_parts:
            return level
    return None


def num_labels(hierarchy, classes, level):
    return len(np.unique(hierarchy.paths[classes, level]))


@given(trees())
def test_stratified_parts_partition_the_classes_evenly(tree):
    names, images = tree
    splits = stratified_splits(Hierarchy.from_names(names), images)
    assert_sound(splits, len(names))
    assert len(splits.test) == (len(names) + 1) // 2
    parts = [fold.validation for fold in splits.folds]
    assert np.array_equal(np.sort(np.concatenate(parts)), splits.trainval)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for fold in splits.folds:
        assert np.array_equal(np.union1d(fold.train, fold.validation), splits.trainval)


@given(trees())
def test_stratified_parts_have_their_share_of_every_label(tree):
    names, images = tree
    hierarchy = Hierarchy.from_names(names)
    splits = stratified_splits(hierarchy, images)
    parts = [fold.validation for fold in splits.folds]
    # Two labels in every fold go before exact shares where one label has nearly all classes.
    others = len(names) - np.bincount(hierarchy.paths[:, 0]).max()
    exact = others >= 2 * NUM_FOLDS
    for distance in distances(hierarchy, [splits.test, splits.trainval]):
        assert distance <= (0.5 if exact else 2)
    for distance in distances(hierarchy, parts):
        assert distance <= (0.75 if exact else 2)


@given(trees())
def test_every_fold_and_the_test_have_two_labels_where_the_tree_allows_it(tree):
    names, images = tree
    hierarchy = Hierarchy.from_names(names)
    splits = stratified_splits(hierarchy, images)
    level = spread_labels(hierarchy, np.arange(len(names)), NUM_FOLDS + 1)
    if level is not None:
        for part in (splits.test, *(fold.validation for fold in splits.folds)):
            assert num_labels(hierarchy, part, level) >= 2


@given(trees())
def test_images_are_dealt_out_evenly(tree):
    names, images = tree[0], np.array(tree[1])
    splits = stratified_splits(Hierarchy.from_names(names), images)
    excess = images[splits.test].sum() - images.sum() * len(splits.test) / len(names)
    assert abs(excess) <= images.max()


def test_images_of_flat_data_are_dealt_out_class_by_class():
    """Sorted by name, the classes grow from 2 to 101 images; ranges would have them apart."""
    hierarchy = Hierarchy.from_names([(f"{number:03d}",) for number in range(100)])
    images = np.arange(2, 102)
    splits = stratified_splits(hierarchy, images)
    means = [images[part].mean() for part in (splits.test, *(f.validation for f in splits.folds))]
    assert np.ptp(means) < 1
    ranges = class_splits(100)
    assert np.ptp([images[fold.validation].mean() for fold in ranges.folds]) > 30
    quarters = [np.bincount(fold.validation // 25, minlength=4) for fold in splits.folds]
    assert np.ptp(quarters) <= 2  # not by chance alike in their sums: few, some, many images


@given(trees(), st.randoms(use_true_random=False))
def test_stratified_splits_know_classes_by_name_and_not_by_place(tree, random):
    names, images = tree
    order = list(range(len(names)))
    random.shuffle(order)
    one = stratified_splits(Hierarchy.from_names(names), images)
    other = stratified_splits(
        Hierarchy.from_names([names[each] for each in order]), [images[each] for each in order]
    )
    place = np.array(order)
    assert np.array_equal(np.sort(place[other.test]), one.test)
    for fold, again in zip(one.folds, other.folds, strict=True):
        assert np.array_equal(np.sort(place[again.validation]), fold.validation)


TEST = [1, 2, 5, 6, 10, 11, 12, 13, 16, 19, 20, 21]
FOLDS = [[14, 18, 22], [0, 7, 8], [4, 15, 17], [3, 9, 23]]


def test_the_draw_belongs_to_the_data_set():
    """The same names always draw the same, also in years; other names draw otherwise."""
    pairs = [(f"family-{number // 4}", f"species-{number:02d}") for number in range(24)]
    splits = stratified_splits(Hierarchy.from_names(pairs), [10] * 24)
    assert splits.test.tolist() == TEST
    assert [fold.validation.tolist() for fold in splits.folds] == FOLDS
    other = [(family, species.replace("species", "kind")) for family, species in pairs]
    assert stratified_splits(Hierarchy.from_names(other), [10] * 24).test.tolist() != TEST


@given(trees(least=9), st.data())
def test_stratified_splits_keep_the_test_that_a_data_set_names(tree, data):
    names, images = tree
    hierarchy = Hierarchy.from_names(names)
    place = st.integers(0, len(names) - 1)
    test = sorted(data.draw(st.sets(place, min_size=1, max_size=len(names) - 8)))
    splits = stratified_splits(hierarchy, images, test_classes=test)
    assert_sound(splits, len(names))
    assert splits.test.tolist() == test
    parts = [fold.validation for fold in splits.folds]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert all(distance <= 2 for distance in distances(hierarchy, parts))
    level = spread_labels(hierarchy, splits.trainval, NUM_FOLDS)
    if level is not None:
        assert all(num_labels(hierarchy, part, level) >= 2 for part in parts)


def test_a_tree_cut_along_its_families_is_dealt_out():
    """Ranges give every fold one family; drawn folds have all of them."""
    names = [(f"family-{number // 10}", f"species-{number:02d}") for number in range(80)]
    hierarchy = Hierarchy.from_names(names)
    splits = stratified_splits(hierarchy, [30] * 80)
    parts = [splits.test, *(fold.validation for fold in splits.folds)]
    assert [num_labels(hierarchy, part, 0) for part in parts] == [8] * 5
    ranges = class_splits(80)
    assert [num_labels(hierarchy, fold.validation, 0) for fold in ranges.folds] == [1] * 4


@pytest.mark.parametrize(
    ("count", "test", "sentence"),
    [
        (15, None, "need at least 8 classes besides the test classes, but 7 of 15"),
        (20, list(range(13)), "but 7 of 20 are left"),
        (20, [20], "test classes must lie in 0..19"),
        (20, [], "at least one test class"),
    ],
)
def test_impossible_stratified_splits_end_in_a_sentence(count, test, sentence):
    hierarchy = Hierarchy.from_names([(f"{number:02d}",) for number in range(count)])
    with pytest.raises(ConfigError) as error:
        stratified_splits(hierarchy, [2] * count, test_classes=test)
    assert sentence in str(error.value)


tables = st.tuples(st.integers(4, 60), st.integers(0, 6)).flatmap(lambda s: arrays.arrays(bool, s))


def counts_of(labels, folds):
    """(folds, T): how many images of every label each fold validates."""
    parts = [folds.fold(number).validation for number in range(folds.num_folds)]
    return np.stack([labels[part].sum(axis=0) for part in parts])


def photos(seed, count, num_labels):
    """Labels as of photographs: some common, most rare, more together than by chance."""
    rng = np.random.default_rng(seed)
    share = np.exp(rng.normal(-3, 1.2, num_labels)).clip(0, 0.5)
    return rng.random((count, num_labels)) < share * np.exp(0.7 * rng.normal(size=(count, 1)))


@given(tables, st.integers(2, 4))
def test_images_validate_once_and_every_label_stands_in_every_fold_or_is_told(labels, num_folds):
    folds = multilabel_folds(labels, num_folds=num_folds)
    for number in range(num_folds):
        fold = folds.fold(number)
        assert fold.validation.size
        both = np.concatenate([fold.train, fold.validation])
        assert np.array_equal(np.sort(both), np.arange(len(labels)))
    images, missing = labels.sum(axis=0), (counts_of(labels, folds) == 0).any(axis=0)
    assert folds.rare == tuple(np.flatnonzero((images > 0) & (images < num_folds)))
    assert folds.absent == tuple(np.flatnonzero(missing & (images >= num_folds)))
    assert not np.array_equal(folds.fold_of, np.full(len(labels), folds.fold_of[0]))


@given(st.lists(st.integers(0, 5), min_size=4, max_size=200))
def test_one_label_per_image_is_dealt_out_evenly(classes):
    labels = np.eye(6, dtype=bool)[classes]
    folds = multilabel_folds(labels)
    counts, sizes = counts_of(labels, folds), np.bincount(folds.fold_of)
    assert folds.absent == ()
    assert sizes.max() - sizes.min() <= 1
    assert (counts.max(axis=0) - counts.min(axis=0) <= 2).all()


@pytest.mark.parametrize("seed", range(10))
def test_folds_of_photographs_have_equal_sizes_and_shares(seed):
    labels = photos(seed, 2000, 40)
    labels[:, 0] = False
    labels[[5, 6, 700, 1999], 0] = True  # as few as can stand in every fold
    labels[:, 1] = False
    labels[[8, 9], 1] = True
    folds = multilabel_folds(labels)
    counts, images = counts_of(labels, folds), labels.sum(axis=0)
    assert np.bincount(folds.fold_of).tolist() == [500] * 4
    assert counts[:, 0].tolist() == [1] * 4
    assert sorted(counts[:, 1]) == [0, 0, 1, 1]
    assert 1 in folds.rare
    assert folds.absent == ()
    assert (counts[:, images >= 4] > 0).all()
    assert (abs(counts - images / 4) <= 2 + 0.02 * images).all()
    again = multilabel_folds(labels.astype(np.int64))
    assert np.array_equal(again.fold_of, folds.fold_of)


def test_shares_are_nearer_than_those_of_a_random_split():
    labels = photos(0, 3000, 60)
    random = np.random.default_rng(0).permutation(np.arange(3000) % 4)
    spread = np.ptp(counts_of(labels, multilabel_folds(labels)), axis=0)
    chance = np.ptp(np.stack([labels[random == k].sum(axis=0) for k in range(4)]), axis=0)
    assert spread.mean() < chance.mean() / 5


def test_a_label_that_dealing_leaves_out_of_a_fold_is_brought_there():
    """Eight rare labels of two images each take all images of the common one with them."""
    labels = np.zeros((16, 9), dtype=bool)
    labels[np.arange(16), np.arange(16) // 2] = True
    labels[:4, 8] = True
    folds = multilabel_folds(labels)
    assert (counts_of(labels, folds)[:, 8] == 1).all()
    assert folds.rare == tuple(range(8))
    assert folds.absent == ()


def test_where_no_folds_can_hold_all_labels_those_absent_are_told():
    """Two of five images share a fold; the label of these two and two others misses one."""
    folds = multilabel_folds(~np.eye(5, dtype=bool))
    assert len(folds.absent) >= 1
    assert folds.rare == ()


def test_images_without_labels_fill_the_folds():
    folds = multilabel_folds(np.zeros((11, 3), dtype=bool))
    assert sorted(np.bincount(folds.fold_of)) == [2, 3, 3, 3]
    assert folds.fold(folds.num_folds).train.tolist() == list(range(11))
    assert folds.fold(folds.num_folds).validation.size == 0


@pytest.mark.parametrize(("shape", "num_folds"), [((3, 2), 4), ((8,), 4), ((8, 2), 1)])
def test_impossible_folds_of_images_end_in_a_sentence(shape, num_folds):
    with pytest.raises(ConfigError, match="Folds of images need"):
        multilabel_folds(np.ones(shape), num_folds=num_folds)


def test_mlrc_cuts_sop_by_number_although_its_lists_are_of_11318_and_11316_classes():
    splits = class_splits(22634, splits="mlrc", test_classes=np.arange(11318, 22634))
    assert (len(splits.trainval), len(splits.test)) == (11317, 11317)
    plain = class_splits(22634, splits="mlrc")
    for ours, theirs in zip(splits.folds, plain.folds, strict=True):
        assert np.array_equal(ours.validation, theirs.validation)

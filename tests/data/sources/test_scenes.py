import io
import itertools

import numpy as np
import pytest
from PIL import Image

from hsearch.data.library import open_data
from hsearch.data.pictograms import NAMES
from hsearch.data.sources import load_source, scenes
from hsearch.folds import multilabel_folds


@pytest.fixture(scope="module")
def rendered():
    return list(scenes.records())


@pytest.fixture(scope="module")
def labels(rendered):
    return np.array([[name in record.tags for name in NAMES] for record in rendered])


@pytest.fixture(scope="module")
def train(rendered):
    return np.array([record.split == "train" for record in rendered])


@pytest.fixture(scope="module")
def pixels(rendered):
    return np.stack([np.asarray(Image.open(io.BytesIO(record.image))) for record in rendered])


def information(first, second):
    """Of two columns of labels about each other, in nats."""
    found = 0.0
    for one, other in itertools.product((False, True), repeat=2):
        both = ((first == one) & (second == other)).mean()
        alone = (first == one).mean() * (second == other).mean()
        found += both * np.log(both / alone) if both else 0.0
    return found


def test_small_colour_images_with_their_own_test(rendered, pixels, train):
    assert pixels.shape == (4000, 64, 64, 3)
    assert train.sum() == 3000
    assert {record.split for record in rendered} == {"train", "test"}
    assert len({record.id for record in rendered}) == 4000
    assert len({record.image for record in rendered}) == 4000
    assert all(record.labels == () for record in rendered)


def test_a_seed_gives_the_same_bytes(rendered):
    again = list(itertools.islice(scenes.records(), 300))  # more than a block
    assert again == rendered[:300]


def test_every_label_is_in_train_and_test_and_some_are_rarer(labels, train):
    assert len(NAMES) == 16
    for part in (labels[train], labels[~train]):
        assert part.mean(axis=0).min() > 0.05
        assert part.mean(axis=0).max() < 0.5
        assert part.sum(axis=1).min() >= 1
        assert 2.5 < part.sum(axis=1).mean() < 5
    counts = labels.sum(axis=0)
    assert counts.max() > 2 * counts.min()


def test_both_splits_are_drawn_alike(labels, train):
    assert abs(labels[train].mean(axis=0) - labels[~train].mean(axis=0)).max() < 0.06


def test_labels_tell_of_each_other(labels):
    """Far more than columns that are shuffled, in which there is no information but by chance."""
    rng = np.random.default_rng(0)
    pairs = list(itertools.combinations(range(len(NAMES)), 2))
    shuffled = np.stack([rng.permutation(column) for column in labels.T], axis=1)
    real = np.array([information(labels[:, a], labels[:, b]) for a, b in pairs])
    chance = np.array([information(shuffled[:, a], shuffled[:, b]) for a, b in pairs])
    assert real.mean() > 20 * chance.mean()
    assert (real > chance.max()).mean() > 0.8
    strongest = {frozenset((NAMES[a], NAMES[b])) for a, b in np.array(pairs)[real.argsort()[-8:]]}
    for pair in (("wave", "boat"), ("fir", "mountain"), ("moon", "star"), ("flower", "tree")):
        assert frozenset(pair) in strongest


def test_sun_and_moon_are_never_together_and_others_now_and_then(labels):
    together = labels.T.astype(int) @ labels
    sun, moon = NAMES.index("sun"), NAMES.index("moon")
    assert together[sun, moon] == 0
    others = ~np.eye(len(NAMES), dtype=bool)
    others[[sun, moon], [moon, sun]] = False
    assert together[others].min() >= 5


def test_what_belongs_together_stands_together():
    rng = np.random.default_rng(0)
    there = np.ones((500, len(NAMES)), dtype=bool)
    places, _ = scenes._places(rng, there)
    wave, boat, fish, flower, tree = (
        places[:, NAMES.index(name)] for name in ("wave", "boat", "fish", "flower", "tree")
    )
    assert abs(boat[:, 0] - wave[:, 0]).mean() < 0.1
    assert (boat[:, 1] < wave[:, 1]).all()
    assert (fish[:, 1] > wave[:, 1]).all()
    assert np.hypot(*(flower - tree).T).mean() < 0.5
    there[:, NAMES.index("wave")] = False
    apart, _ = scenes._places(rng, there)
    assert abs(apart[:, NAMES.index("boat"), 0] - apart[:, NAMES.index("fish"), 0]).mean() > 0.3


def test_pixels_tell_the_labels_but_not_at_once(labels, train, pixels):
    """A linear map of coarse grey pixels finds every label above chance, and is no answer."""
    grey = pixels.mean(axis=3).reshape(-1, 16, 4, 16, 4).mean(axis=(2, 4)).reshape(4000, 256)
    grey -= grey.mean(axis=1, keepdims=True)
    known, others = grey[train], grey[~train]
    ridge = known.T @ known + 1e4 * np.eye(256)
    wanted = labels[train] - labels[train].mean(axis=0)
    scores = others @ np.linalg.solve(ridge, known.T @ wanted)
    truth = labels[~train]
    order = np.argsort(-scores, axis=0)
    top = np.take_along_axis(truth, order, axis=0)[:100].mean(axis=0)
    assert (top > truth.mean(axis=0) + 0.05).all()
    assert top.mean() < 0.85


def test_the_source_tells_what_it_is():
    source = load_source("scenes")
    assert not source.needs_path
    assert source.about.startswith("Drawings with several things in each")


@pytest.mark.usefixtures("data_home")
def test_the_store_is_made_at_first_use(monkeypatch):
    monkeypatch.setattr(scenes, "SPLITS", {"train": 300, "test": 100})
    store = open_data("scenes")
    assert store.tag_names == tuple(sorted(NAMES))
    records = {record.id: record for record in scenes.records()}
    for row in range(len(store)):
        record = records[store.ids[row]]
        tags = {store.tag_names[tag] for tag in np.flatnonzero(store.tags[row])}
        assert (tags, store.split[row]) == (set(record.tags), record.split)


def test_every_fold_has_every_label(labels, train):
    folds = multilabel_folds(labels[train])
    assert folds.rare == folds.absent == ()
    assert np.bincount(folds.fold_of).tolist() == [750] * 4

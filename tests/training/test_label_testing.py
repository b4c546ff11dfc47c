"""Testing runs on images with several labels each, and the floor beneath them."""

import numpy as np
import pytest

from hsearch.data.splits import split_store
from hsearch.data.store import Store
from hsearch.evaluation.label_scoring import LabelEmbedded, guess_labels, score_labels
from hsearch.evaluation.query_table import QUERIES
from hsearch.evaluation.scoring import join
from hsearch.folds import ALL_CLASSES
from hsearch.results import FloorScore, label_metric_names
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.resolve import resolve_job
from hsearch.training.score import embed_runs
from hsearch.training.testing import floor_metrics, score_floor, score_run
from tests.conftest import TINY


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture
def trained(run, toy_job):
    """A run of two folds, each trained for a moment."""
    for fold in (0, 1):
        train_locally(toy_job("mulcon", fold=fold), Report(), run / f"fold-{fold}")
    return run


def labelled(paths):
    models = [model for model in embed_runs(paths, "test") if isinstance(model, LabelEmbedded)]
    assert len(models) == len(paths)
    return models


def test_a_run_is_scored_network_by_network_and_by_their_mean_logits(trained, label_store):
    tested = score_run(trained, (0, 1))
    one, other = labelled([trained / "fold-0", trained / "fold-1"])
    assert list(tested.models) == [score_labels(one), score_labels(other)]
    assert tested.queries == len(one.labels) == 40
    assert np.array_equal(one.labels, label_store.tags[label_store.split == "test"])
    mean = LabelEmbedded((one.scores + other.scores) / 2, one.labels, one.label_names)
    assert tested.concatenated is not None
    for name in label_metric_names():
        assert tested.concatenated[name] == pytest.approx(score_labels(mean)[name], abs=1e-6), name
    assert "label_recall_at_10" in tested.concatenated
    assert not (trained / QUERIES).exists()


def test_embeddings_of_labels_are_joined_side_by_side_as_unit_vectors(trained):
    models = labelled([trained / "fold-0", trained / "fold-1"])
    joined = join(models)
    assert isinstance(joined, LabelEmbedded)
    assert joined.embeddings is not None
    assert joined.embeddings.shape == (models[0].labels.sum(), 32)
    for number, model in enumerate(models):
        assert model.embeddings is not None
        units = model.embeddings / np.linalg.norm(model.embeddings, axis=1, keepdims=True)
        part = joined.embeddings[:, 16 * number : 16 * (number + 1)]
        assert part == pytest.approx(units, abs=1e-5)


def test_the_floor_knows_how_frequent_labels_are_and_does_not_look(toy_job, label_store, tmp_path):
    splits = split_store(label_store)
    floor = floor_metrics(toy_job("mulcon"))
    # All images have the same scores and so one rank: precision is a label's share of the test.
    assert floor["map"] == pytest.approx(label_store.tags[splits.test].mean(axis=0).mean())
    assert set(floor) == set(label_metric_names())
    share = label_store.tags[splits.trainval].mean(axis=0)
    assert floor["cr"] == pytest.approx((share > 0.5).mean())
    assert floor["cr_top_3"] <= 0.5
    for other in (toy_job("bce"), toy_job("mulcon", fold=3, seed=5)):
        assert floor_metrics(other) == floor
    assert score_floor(toy_job("mulcon"), tmp_path) == FloorScore(metrics=floor, queries=0)
    assert not list(tmp_path.iterdir()), "labels are not scored query by query"


def test_the_floor_needs_no_image_of_the_test(toy_job, monkeypatch):
    def no_image(store, row):
        raise AssertionError(f"image {row} was read")

    job = toy_job("mulcon")
    monkeypatch.setattr(Store, "encoded", no_image)
    assert 0 < floor_metrics(job)["map"] < 1


def test_a_guess_is_finite_for_labels_of_all_and_of_no_image():
    trained = np.array([[True, False, True], [True, False, False]])
    guess = guess_labels(4, trained)
    assert guess.shape == (4, 3)
    assert np.isfinite(guess).all()
    assert (guess[:, 0] > 0).all()
    assert (guess[:, 1] < 0).all()
    assert guess[:, 2] == pytest.approx(0)


@pytest.mark.parametrize("method", ["mulcon", "bce"])
def test_a_training_on_all_but_the_test_validates_on_none(tmp_path, label_store, method):
    job = resolve_job(
        method=method,
        data=str(label_store.path),
        recipe="small-labels",
        settings=TINY.copy(),
        fold=ALL_CLASSES,
    )
    result = train_locally(job, Report(), tmp_path / f"fold-{ALL_CLASSES}")
    assert (result.score, result.validation, result.best_epoch) == (None, {}, 2)
    tested = score_run(tmp_path, (ALL_CLASSES,))
    assert tested.concatenated is None
    assert tested.separated == tested.models[0]
    assert tested.queries == 40

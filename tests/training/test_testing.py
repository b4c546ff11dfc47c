import numpy as np
import pytest

from hsearch.evaluation.query_table import FLOOR_NAME, QUERIES, read_query_tables
from hsearch.evaluation.scoring import ScoreOptions, join, score
from hsearch.folds import ALL_CLASSES
from hsearch.results import FloorScore
from hsearch.training.floor import embed_frozen
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from hsearch.training.score import embed_runs
from hsearch.training.testing import floor_metrics, score_floor, score_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two folds, each trained for a moment."""
    return tmp_path_factory.mktemp("run")


@pytest.fixture
def trained(run, toy_job):
    for fold in (0, 1):
        train_locally(toy_job(fold=fold), Report(), run / f"fold-{fold}")
    return run


def test_a_run_is_scored_as_its_networks_are_one_by_one_and_joined(trained):
    tested = score_run(trained, (0, 1))
    models = embed_runs([trained / "fold-0", trained / "fold-1"], "test")
    alone = [score(model, ScoreOptions()) for model in models]
    assert list(tested.models) == alone
    assert tested.concatenated == score(join(models), ScoreOptions())
    assert tested.separated["map_at_r"] == (alone[0]["map_at_r"] + alone[1]["map_at_r"]) / 2
    assert tested.queries == 72  # 12 test classes of 6 images


def test_the_scores_of_the_queries_have_the_means_that_are_told(trained):
    tested = score_run(trained, (0, 1))
    tables = read_query_tables(trained / QUERIES)
    assert tables.keys() == {"separated", "concatenated"}
    for kind, told in (("separated", tested.separated), ("concatenated", tested.concatenated)):
        table = tables[kind]
        assert told is not None
        assert table.rows.tolist() == list(range(72))
        assert table.values.keys() == told.keys()
        for name, values in table.values.items():
            assert np.nanmean(values, dtype=np.float64) == pytest.approx(told[name], abs=1e-6), name


def test_the_floor_is_the_backbone_without_training_and_head(toy_job):
    job = toy_job()
    embedded = embed_frozen(job, "test")
    assert np.linalg.norm(embedded.embeddings, axis=1) == pytest.approx(1, abs=1e-5)
    assert embedded.embeddings.shape[1] != job.training.model.embedding_dim
    assert floor_metrics(job) == score(embedded, ScoreOptions())
    # The method, its head and its knobs play no part.
    other = toy_job("proxy_anchor", model__embedding_dim=8)
    assert floor_metrics(other) == floor_metrics(job)


def test_the_floor_keeps_what_every_query_scores(toy_job, tmp_path):
    job = toy_job()
    tested = score_floor(job, tmp_path)
    assert tested == FloorScore(metrics=floor_metrics(job), queries=72)
    table = read_query_tables(tmp_path / QUERIES)[FLOOR_NAME]
    assert table.rows.tolist() == list(range(72))
    for name, value in tested.metrics.items():
        assert np.nanmean(table.values[name], dtype=np.float64) == pytest.approx(value, abs=1e-6)


def test_a_training_on_all_classes_validates_on_none_and_keeps_its_last_epoch(tmp_path, toy_job):
    seen = []

    class Kept(Report):
        def epoch(self, record):
            seen.append(record)

    job = toy_job().model_copy(update={"fold": ALL_CLASSES})
    result = train_locally(job, Kept(), tmp_path / f"fold-{ALL_CLASSES}")
    assert (result.score, result.validation, result.best_epoch) == (None, {}, 2)
    assert [record.validation for record in seen] == [None] * 3
    tested = score_run(tmp_path, (ALL_CLASSES,))
    assert len(tested.models) == 1
    assert tested.concatenated is None
    assert tested.separated == tested.models[0]
    # A network that has seen all twelve classes is another one than that of a fold.
    train_locally(toy_job(), Report(), tmp_path / "fold-0")
    assert score_run(tmp_path, (0,)).models != tested.models

"""`hsearch evaluate` on data with one test set per level, and with images held out of training."""

import re
import statistics

import numpy as np
import pytest

from hsearch.data.records import LEVEL_TESTS, SEEN
from hsearch.data.store import Store
from hsearch.data.store_writer import write_store
from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.evaluation.scoring import Embedded
from hsearch.training.folder import read_job
from hsearch.training.score import embed_run
from hsearch.training.setup import load_fold
from tests.cli.test_evaluate import evaluated, hsearch, train
from tests.conftest import toy_records

METRICS = ("ap", "asi", "recall_at_1")


def records():
    """12 classes to train on, an image of each held out, and three sets of 4 classes to test."""
    for record in toy_records():
        number = record.order
        if number < 12:
            split = SEEN if record.id.endswith("-0") else "train"
            yield record_with(record, split, record.labels)
        else:
            name = f"test-{number}"
            yield record_with(record, LEVEL_TESTS[number % 3], (name, name, name))


def record_with(record, split, labels):
    first = record.id.endswith("-0")
    test = split in LEVEL_TESTS
    return type(record)(
        id=record.id,
        image=record.image,
        labels=labels,
        split=split,
        is_query=first or not test,
        is_gallery=not first or not test,
        order=record.order,
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("sets") / "sets.arrow"
    write_store(path, "sets", records(), provenance={})
    return Store.open(path)


@pytest.fixture(scope="module")
def runs(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [train(store.path, folder / f"fold-{fold}", fold=fold) for fold in range(2)]


def test_every_set_is_scored_alone_and_the_mean_of_the_three_counts(runs, store):
    found = evaluated(runs[0], "--on", "test")
    assert found["protocol"]["kind"] == "one test set per level"
    assert found["test_sets"] == {"coarse": 24, "middle": 24, "fine": 24}
    seen = embed_run(runs[0], "test")
    assert isinstance(seen, Embedded)
    rows = np.flatnonzero(np.char.startswith(store.split, "test"))
    for name in LEVEL_TESTS:
        own = store.split[rows] == name
        expected = retrieval_metrics(
            seen.embeddings[own],
            store.classes[rows][own],
            queries=store.is_query[rows][own],
            gallery=store.is_gallery[rows][own],
            recall_at=(1,),
            whole_list=True,
        )
        for metric in METRICS:
            key = f"{name.removeprefix('test-')}/{metric}"
            assert found["metrics"][key] == pytest.approx(expected[metric])
    for metric in METRICS:
        each = [found["metrics"][f"{name}/{metric}"] for name in ("coarse", "middle", "fine")]
        assert found["metrics"][metric] == pytest.approx(statistics.fmean(each))
    assert len(found["metrics"]) == 12


def test_tables_have_a_column_per_set_and_the_mean(runs):
    one = hsearch("evaluate", runs[0], "--on", "test").output
    assert "one test set per level (coarse 24, middle 24, fine 24 images)" in one
    assert re.search(r"METRIC +COARSE +MIDDLE +FINE +MEAN\nAP +0", one)
    both = hsearch("evaluate", *runs, "--on", "test").output
    assert both.count("coarse") == 4
    assert both.count("mean") == 3


def test_accuracies_of_several_sets_are_refused(runs):
    result = hsearch("evaluate", runs[0], "--on", "test", "--classify")
    assert result.exit_code == 2
    assert "leave --classify and --nmi out" in result.output


def test_held_out_images_are_never_trained_on_but_can_be_scored(runs, store):
    fold = load_fold(read_job(runs[0]))
    opened = {*fold.train_rows.tolist(), *fold.validation_rows.tolist()}
    held_out = set(np.flatnonzero(store.split == SEEN).tolist())
    assert len(held_out) == 12
    assert not opened & held_out
    found = evaluated(runs[0], "--on", "seen")
    assert found["protocol"]["kind"] == "query/gallery"
    assert (found["protocol"]["queries"], found["protocol"]["gallery"]) == (9, 45)
    accuracy = evaluated(runs[0], "--on", "seen", "--classify")["metrics"]["knn_accuracy"]
    assert accuracy * 9 == pytest.approx(round(accuracy * 9))


def test_data_without_held_out_images_say_so(toy_store, tmp_path):
    run = train(toy_store.path, tmp_path / "run")
    result = hsearch("evaluate", run, "--on", "seen")
    assert result.exit_code == 2
    assert "hold out no image" in result.output

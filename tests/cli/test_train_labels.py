"""Training on images with several labels: what is refused, and that no test image is read."""

import re

import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.folds import ALL_CLASSES
from hsearch.training.launch import train_locally
from hsearch.training.loop import Report
from tests.conftest import TINY
from tests.destroyed import without_test_images

SETTINGS = [f"--set={key}={value}" for key, value in TINY.items()]


def hsearch(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def stores(toy_store, label_store):
    return {"classes": toy_store, "labels": label_store}


@pytest.mark.parametrize("verb", ["train", "tune"])
@pytest.mark.parametrize(
    ("method", "data", "further", "sentence"),
    [
        (
            "mulcon",
            "classes",
            [],
            "mulcon learns from images with several labels each, but those of 'toy' have one "
            r"label path; choose other data, or one of the methods .*\bhpl\b.*\.",
        ),
        (
            "hpl",
            "labels",
            [],
            "hpl learns from images with one label path each, but those of 'labels' have several "
            r"labels; choose other data, or one of the methods bce, mulcon\.",
        ),
        (
            "mulcon",
            "labels",
            ["--objective", "cf"],
            "Unknown objective 'cf' for '.*' with several labels each; did you mean 'cf1'.*"
            r"map, cp, cr, cf1.*of1_top_3\.",
        ),
        ("mulcon", "labels", ["--objective", "map_at_r"], "Unknown objective 'map_at_r'.*"),
        ("mulcon", "labels", ["--splits", "mlrc"], "`mlrc` splits are of classes.*"),
        (
            "bce",
            "labels",
            ["--set", "batch.sampler=m_per_class"],
            r".*no sampler by classes.*add --set batch\.sampler=shuffle\.",
        ),
    ],
)
def test_what_does_not_fit_labels_is_one_sentence(
    stores, tmp_path, monkeypatch, verb, method, data, further, sentence
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSEARCH_STORAGE", raising=False)
    result = hsearch(
        verb, "--method", method, "--data", stores[data].path, *SETTINGS, *further
    )  # fmt: skip
    assert result.exit_code == 2, result.output
    assert re.fullmatch(f"hsearch: error: {sentence}\n", result.output), result.output
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def unreadable_test_images(tmp_path, label_store):
    """The labelled store with every byte of the test images destroyed."""
    return without_test_images(label_store, tmp_path / "broken")


@pytest.mark.parametrize("method", ["mulcon", "bce"])
def test_training_never_opens_a_test_image(tmp_path, monkeypatch, unreadable_test_images, method):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))  # no pixels from other tests
    data, run = unreadable_test_images.path, tmp_path / "run"
    command = ["train", "--method", method, "--data", data, "--out", run, *SETTINGS]
    trained = hsearch(*command)
    assert trained.exit_code == 0, trained.output
    assert hsearch("evaluate", run).exit_code == 0
    refused = hsearch("evaluate", run, "--on", "test")
    assert refused.exit_code == 2, "the test images are really unreadable"


LABELLED = {"label-scores.png", "label-neighbors.png"}


@pytest.mark.parametrize(
    ("method", "expected"),
    [("mulcon", LABELLED | {"attention.png", "label-gallery.png"}), ("bce", LABELLED)],
)
@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_run_has_all_pictures_of_its_method(tmp_path, toy_job, method, expected, part):
    train_locally(toy_job(method), Report(), tmp_path / "run")
    result = hsearch("look", tmp_path / "run", "--on", part, "--to", tmp_path / "looks")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "looks").iterdir()} == expected
    assert result.stdout.startswith(f"{len(expected)} pictures in {tmp_path / 'looks'}:\n")
    for path in (tmp_path / "looks").iterdir():
        assert path.stat().st_size > 5000


@pytest.mark.parametrize("verb", ["look", "evaluate"])
@pytest.mark.parametrize("method", ["mulcon", "proxy_nca"])
def test_a_run_without_validation_images_is_told_where_to_look(
    tmp_path, monkeypatch, toy_job, verb, method
):
    monkeypatch.chdir(tmp_path)
    job = toy_job(method).model_copy(update={"fold": ALL_CLASSES})
    train_locally(job, Report(), tmp_path / "run")
    result = hsearch(verb, tmp_path / "run")
    assert result.exit_code == 2, result.output
    assert re.fullmatch(
        rf"hsearch: error: {method} was trained on all images of '\w+' but those of the test, so "
        r"it has no validation images; add `--on test`\.\n",
        result.output,
    )
    assert not (tmp_path / "looks").exists()
    assert hsearch(verb, tmp_path / "run", "--on", "test").exit_code == 0

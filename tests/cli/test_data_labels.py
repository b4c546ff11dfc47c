"""`hsearch data` on images with several labels each."""

import re

import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.data.records import Record
from hsearch.data.splits import split_store
from hsearch.folds import NUM_FOLDS
from tests.data.sources.test_voc2007 import build as build_voc2007
from tests.data.toy import encode, photo, toy_store


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def run(*arguments):
    return CliRunner().invoke(main, ["data", *(str(argument) for argument in arguments)])


def cells(result):
    """The lines of tables, their columns parted by tabs."""
    return [re.sub("  +", "\t", line) for line in result.output.splitlines()]


@pytest.fixture
def put(folder):
    """Makes the data `mine`; image i has the tags t with i % (t + 1) == 0."""

    def make(marks):
        records = [
            Record(
                f"{i:02d}",
                encode(photo(i)),
                (),
                split=mark,
                tags=tuple(f"tag-{t}" for t in range(3) if i % (t + 1) == 0),
            )
            for i, mark in enumerate(marks)
        ]
        return toy_store(folder / "mine.arrow", records)

    return make


@pytest.mark.parametrize("marks", [["train"] * 16 + ["test"] * 4, [""] * 20])
def test_folds_of_images_are_shown(put, marks):
    store = put(marks)
    result = run("show", "mine")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "No folds" not in result.output
    shown = cells(result)
    whose = "the data set's own test images" if "test" in marks else "a fifth of the images"
    (words,) = [line for line in shown if line.startswith("Splits: ")]
    assert "its share of every tag" in words
    assert words.endswith(f"the test is {whose}.")
    assert "PART\tIMAGES\tTAGS\tIMAGES PER TAG" in shown
    splits = split_store(store)
    parts = {f"fold {n} validation": splits.fold(n).validation for n in range(NUM_FOLDS)}
    parts |= {"trainval": splits.trainval, "test": splits.test}
    assert sum(len(rows) for rows in parts.values()) == 16 + 16 + 4
    for part, rows in parts.items():
        images = store.tags[rows].sum(axis=0)
        some = images[images > 0]
        line = f"{part}\t{len(rows)}\t{len(some)}\t{some.min()} to {some.max()}"
        assert line in shown


@pytest.mark.parametrize(
    ("marks", "sentence"),
    [
        (["train"] * 20, "none is marked test; mark the test images"),
        (["train"] * 10 + [""] * 10, "10 of 20 images have none"),
        ([""] * 4, "4 folds and a test need at least 5 images"),
    ],
)
def test_why_there_are_no_folds_is_shown_in_their_place(put, marks, sentence):
    put(marks)
    shown = run("show", "mine")
    assert shown.exit_code == 0
    (line,) = [line for line in shown.stdout.splitlines() if line.startswith("No folds: ")]
    assert sentence in line
    assert "fold 0" not in shown.stdout


@pytest.mark.parametrize("kind", ["mlrc", "stratified"])
def test_splits_of_classes_are_none_of_images(put, kind):
    put([""] * 20)
    shown = run("show", "mine", "--splits", kind)
    assert shown.exit_code == 0
    assert f"\nNo folds: `{kind}` splits are of classes" in shown.stdout


def test_official_files_are_prepared_without_a_warning(tmp_path):
    build_voc2007(tmp_path / "voc")
    prepared = run("prepare", "voc2007", "--from", tmp_path / "voc")
    assert (prepared.exit_code, prepared.stderr) == (0, "")

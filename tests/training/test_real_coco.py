"""Real photographs of COCO with several labels each, from the files of its owners to pictures."""

import numpy as np
import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.data.library import open_data
from hsearch.data.splits import split_store
from tests.shared_data import shared_data

pytestmark = pytest.mark.realdata

TINY = [
    *("--epochs", "2", "--set", "batch.size=8", "--set", "schedule.iterations_per_epoch=2"),
    *("--set", "image.resize=48", "--set", "image.crop=48"),
]


def run(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_mulcon_goes_from_files_to_pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("HSEARCH_DATA", str(tmp_path / "data"))
    run("data", "prepare", "coco", "--from", shared_data("coco"))
    store = open_data("coco")
    splits = split_store(store)
    assert (len(store.tag_names), len(splits.trainval), len(splits.test)) == (67, 30, 30)
    validated = np.sort(np.concatenate([splits.fold(number).validation for number in range(4)]))
    assert np.array_equal(validated, splits.trainval)
    small = ("--recipe", "small-labels", *TINY)
    run("train", "--method", "mulcon", "--data", "coco", *small, "--out", tmp_path / "run")
    told = run("evaluate", tmp_path / "run", "--on", "test")
    absent = int((~store.tags[splits.test].any(axis=0)).sum())
    assert f"30 images, 67 labels, of which no image has {absent}" in told
    run("look", tmp_path / "run", "--to", tmp_path / "look")
    assert {path.name for path in (tmp_path / "look").iterdir()} == {
        "attention.png",
        "label-gallery.png",
        "label-neighbors.png",
        "label-scores.png",
    }

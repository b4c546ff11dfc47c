"""`hsearch train` and `hsearch evaluate` on images with several labels each."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.data.splits import split_store
from hsearch.evaluation.label_scoring import LabelEmbedded
from hsearch.results import label_metric_names
from hsearch.training.score import embed_run
from tests.conftest import TINY

SETTINGS = [f"--set={key}={value}" for key, value in TINY.items()]


def hsearch(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def train(store, out, *further, method="mulcon"):
    command = ["train", "--method", method, "--data", store.path, "--out", out, *SETTINGS]
    result = hsearch(*command, *further)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def runs(label_store, toy_store, tmp_path_factory):
    """Two folds of one method, a fold of another, and a run on classes."""
    folder = tmp_path_factory.mktemp("runs")
    train(label_store, folder / "fold-0")
    train(label_store, folder / "fold-1", "--fold", 1)
    train(label_store, folder / "bce", "--objective", "cf1", method="bce")
    train(toy_store, folder / "classes", method="hpl")
    return folder


def evaluated(*arguments):
    result = hsearch("evaluate", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_train_shows_the_metrics_of_labels_and_what_to_do_next(label_store, tmp_path):
    lines = train(label_store, tmp_path / "run").splitlines()
    assert lines[0].startswith("Recipe small-labels ")
    assert lines[1].startswith("mulcon on ")
    assert lines[2].startswith("Floor (label frequencies alone, no training): mAP 0.")
    metrics = r"mAP 0\.\d{4}  CF1 0\.\d{4}  .*"
    assert re.fullmatch(rf"epoch 0/2  classify  before         {metrics}", lines[3])
    assert re.fullmatch(rf"epoch 2/2  last      loss .*  {metrics}", lines[5])
    assert lines[-1] == f"Next:   hsearch evaluate {tmp_path / 'run'} --on test"
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["job"]["objective"] == "map"
    assert written["job"]["training"]["recipe"] == "small-labels"
    assert written["score"] == written["history"][2]["validation"]["map"]  # of the last stage


def test_another_objective_decides_and_is_shown(runs):
    written = json.loads((runs / "bce" / "result.json").read_text())
    assert written["job"]["objective"] == "cf1"
    assert written["score"] == max(e["validation"]["cf1"] for e in written["history"][1:])


@pytest.mark.parametrize("run", ["fold-0", "bce"])
def test_validation_is_scored_as_it_was_recorded(runs, run):
    page = evaluated(runs / run)
    kept = json.loads((runs / run / "result.json").read_text())["validation"]
    assert page["metrics"] == pytest.approx(kept)
    assert ("label_precision_at_3" in kept) == (run == "fold-0")
    assert page["scored"]["images"] == 30


def test_a_run_is_scored_over_all_labels_and_label_by_label(runs, label_store, tmp_path):
    out = tmp_path / "new" / "scores.json"
    result = hsearch("evaluate", runs / "fold-0", "--on", "test", "--out", out)
    assert result.exit_code == 0, result.output
    page = json.loads(out.read_text())
    assert page == evaluated(runs / "fold-0", "--on", "test")
    assert page.keys() == {"scored", "per_label", "metrics"}
    (facts,) = page["scored"].pop("runs")
    assert (facts["run"], facts["objective"]) == (str(runs / "fold-0"), "map")
    assert page["scored"] == {"on": "test", "images": 40, "labels": 6}
    assert set(label_metric_names()) < set(page["metrics"])
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == f"{runs / 'fold-0'}, best epoch, test images"
    assert lines[1] == "40 images, 6 labels; retrieval by label among the first 40 images"
    assert lines[2].split() == ["METRIC", "ALL", "LABELS"]
    assert lines[3].split() == ["mAP", f"{page['metrics']['map']:.4f}"]
    titles = [re.split("  +", line)[0] for line in lines[3:]]
    assert {"CP", "OF1 top-3", "label P@3", "label R@20"} <= set(titles)
    rows = label_store.tags[split_store(label_store).test]
    each = page["per_label"]
    assert [each[name]["images"] for name in label_store.tag_names] == rows.sum(axis=0).tolist()
    found = [values["ap"] for values in each.values()]
    assert np.mean(found) == pytest.approx(page["metrics"]["map"])
    assert np.mean([values["recall"] for values in each.values()]) == pytest.approx(
        page["metrics"]["cr"]
    )
    head = next(n for n, line in enumerate(lines) if line.startswith("LABEL "))
    assert lines[head].split() == ["LABEL", "IMAGES", "AP", "PRECISION", "RECALL"]
    best = max(each, key=lambda name: each[name]["ap"])
    assert lines[head + 1].split()[:3] == [
        best, str(each[best]["images"]), f"{each[best]['ap']:.4f}"
    ]  # fmt: skip
    assert [float(line.split()[2]) for line in lines[head + 1 :]] == sorted(
        (round(ap, 4) for ap in found), reverse=True
    )


def test_folds_are_scored_one_by_one_and_by_their_mean_logits(runs):
    folds = [runs / "fold-0", runs / "fold-1"]
    page = evaluated(*folds, "--on", "test")
    single = [evaluated(fold, "--on", "test") for fold in folds]
    assert page["runs"] == [each["metrics"] for each in single]
    scores = [each["metrics"]["map"] for each in single]
    assert page["separated"]["map"]["mean"] == pytest.approx(np.mean(scores))
    assert page["separated"]["map"]["std"] == pytest.approx(np.std(scores, ddof=1))
    label = page["per_label"]["label-0"]
    both = [each["per_label"]["label-0"]["ap"] for each in single]
    assert label["ap"] == pytest.approx(np.mean(both))
    seen = [embed_run(fold, "test") for fold in folds]
    parts = [part for part in seen if isinstance(part, LabelEmbedded)]
    mean = LabelEmbedded(
        np.mean([part.scores for part in parts], axis=0), parts[0].labels, parts[0].label_names
    )
    expected = mean.per_label().metrics()
    assert {name: page["concatenated"][name] for name in expected} == pytest.approx(expected)
    lines = hsearch("evaluate", *folds, "--on", "test").output.splitlines()
    assert lines[2].split() == ["LEVEL", "METRIC", "SEPARATED", "CONCATENATED"]
    assert lines[3].split()[:3] == ["all", "labels", "mAP"]


def test_training_images_are_scored_too(runs):
    page = evaluated(runs / "fold-0", "--on", "train")
    assert (page["scored"]["on"], page["scored"]["images"]) == ("train", 90)


@pytest.mark.parametrize(
    ("names", "arguments", "sentence"),
    [
        (["fold-0"], ["--classify"], "Leave --classify out: it is about retrieval by classes"),
        (["fold-0"], ["--nmi"], "Leave --nmi out"),
        (["fold-0"], ["--alpha", "2"], "Leave --alpha out"),
        (["bce"], ["--recall-at", "1,2"], "Leave --recall-at out"),
        (["fold-0"], ["--on", "seen"], "hold out no image"),
        (["fold-0", "fold-1"], [], "their validation images differ; add `--on test`"),
        (["fold-0", "bce"], ["--on", "test"], "must have the same method"),
        (["fold-0", "classes"], ["--on", "test"], "must have the same method"),
    ],
)
def test_what_labels_do_not_have_is_one_sentence(runs, tmp_path, names, arguments, sentence):
    out = tmp_path / "scores.json"
    result = hsearch("evaluate", *(runs / name for name in names), *arguments, "--out", out)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert re.fullmatch(r"hsearch: error: .*\n", result.stderr)
    assert result.stdout == ""
    assert not out.exists()

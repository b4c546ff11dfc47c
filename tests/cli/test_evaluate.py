"""`hsearch evaluate` as a user runs it on trained runs."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from hsearch.cli.main import main
from hsearch.data.store_writer import write_store
from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.evaluation.protocols import concatenated
from hsearch.evaluation.scoring import Embedded
from hsearch.training.score import embed_run
from tests.conftest import toy_records

TINY = [
    *("--set", "image.resize=16", "--set", "image.crop=16", "--set", "model.embedding_dim=16"),
    *("--set", "batch.size=16", "--set", "schedule.iterations_per_epoch=4", "--epochs", 1),
]
LEVEL_METRICS = ["map_at_r", "r_precision", "precision_at_1", "recall_at_1", "ap", "asi"]
ALL_LEVELS = ["h_ap", "h_ap_map", "h_asi", "h_ndcg", "h_violations"]


def hsearch(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def evaluated(*arguments):
    result = hsearch("evaluate", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def train(data, out, *, fold=0, method="proxy_nca"):
    command = ["train", "--method", method, "--data", data, "--out", out, "--fold", fold, *TINY]
    result = hsearch(*command)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="module")
def runs(toy_store, tmp_path_factory):
    """Two folds of one method, a fold of another method, and one of another data set."""
    folder = tmp_path_factory.mktemp("runs")
    marked = folder / "marked.arrow"
    write_store(marked, "marked", _marked_records(), provenance={"made": "by the tests"})
    return {
        "fold-0": train(toy_store.path, folder / "fold-0"),
        "fold-1": train(toy_store.path, folder / "fold-1", fold=1),
        "hier": train(toy_store.path, folder / "hier", method="hier"),
        "hier-1": train(toy_store.path, folder / "hier-1", fold=1, method="hier"),
        "marked": train(marked, folder / "marked"),
    }


def _marked_records():
    """The toy data with the first image of every class as query and the others as gallery."""
    for record in toy_records():
        first = record.id.endswith("-0")
        yield type(record)(
            record.id, record.image, record.labels, is_query=first, is_gallery=not first,
            order=record.order,
        )  # fmt: skip


def test_a_run_is_scored_at_every_level_and_over_all_levels(runs, toy_store, tmp_path):
    out = tmp_path / "new" / "scores.json"
    result = hsearch("evaluate", runs["fold-0"], "--on", "test", "--out", out)
    assert result.exit_code == 0, result.output
    page = json.loads(out.read_text())
    assert page == evaluated(runs["fold-0"], "--on", "test")
    (facts,) = page["scored"].pop("runs")
    assert (facts["run"], facts["fold"], facts["seed"]) == (str(runs["fold-0"]), 0, 0)
    assert facts["objective"] == "map_at_r"
    assert page["scored"] == {"on": "test", "images": 72, "dimensions": 16}
    assert page["protocol"] == {
        "kind": "self retrieval", "queries": 72, "gallery": 72, "queries_without_match": 0,
    }  # fmt: skip
    assert (page["geometry"], page["curvature"], page["alpha"]) == ("cosine", None, 1.0)
    assert tuple(page["levels"]) == toy_store.hierarchy.level_names
    metrics = page["metrics"]
    prefixes = ["level_0/", "level_1/", ""]
    wanted = {prefix + name for prefix in prefixes for name in LEVEL_METRICS} | set(ALL_LEVELS)
    assert wanted <= set(metrics)
    assert all(0 <= value <= 1 for value in metrics.values())
    table = result.stdout.splitlines()
    assert table[2].split() == [
        "METRIC", *map(str.upper, page["levels"]), "ALL", "LEVELS"
    ]  # fmt: skip
    shown = {line.split("  ")[0]: line.split()[-3:] for line in table[3:]}
    assert shown["MAP@R"] == [f"{metrics[prefix + 'map_at_r']:.4f}" for prefix in prefixes]
    assert shown["H-AP"][-1] == f"{metrics['h_ap']:.4f}"
    assert shown["violations"][-1] == f"{metrics['h_violations']:.4f}"
    assert max(map(len, table[2:])) < 80


def test_marked_queries_search_the_marked_gallery(runs):
    page = evaluated(runs["marked"], "--on", "test")
    assert page["protocol"] == {
        "kind": "query/gallery", "queries": 12, "gallery": 60, "queries_without_match": 0,
    }  # fmt: skip
    shown = hsearch("evaluate", runs["marked"], "--on", "test").output
    assert "query/gallery: 12 query 60 images" in shown
    assert evaluated(runs["marked"])["protocol"]["kind"] == "self retrieval"


@pytest.mark.parametrize("method", ["fold", "hier"])
def test_folds_are_scored_one_by_one_and_joined(runs, method):
    folds = [runs["fold-0"], runs["fold-1"]]
    if method == "hier":
        folds = [runs["hier"], runs["hier-1"]]
    page = evaluated(*folds, "--on", "test")
    single = [evaluated(fold, "--on", "test")["metrics"] for fold in folds]
    assert page["runs"] == single
    for name in ("map_at_r", "level_0/ap", "h_ap"):
        scores = [metrics[name] for metrics in single]
        assert page["separated"][name]["mean"] == pytest.approx(np.mean(scores))
        assert page["separated"][name]["std"] == pytest.approx(np.std(scores, ddof=1))
    seen = [embed_run(fold, "test") for fold in folds]
    parts = [part for part in seen if isinstance(part, Embedded)]
    curvatures = [part.curvature for part in parts] if method == "hier" else ()
    joined = concatenated(
        [part.embeddings for part in parts], geometry=parts[0].geometry, curvatures=curvatures
    )
    expected = retrieval_metrics(joined, parts[0].labels, whole_list=True)
    assert page["concatenated"] == pytest.approx(expected)
    lines = hsearch("evaluate", *folds, "--on", "test").output.splitlines()
    assert lines[2].split() == ["LEVEL", "METRIC", "SEPARATED", "CONCATENATED"]
    spread = page["separated"]["level_0/map_at_r"]
    assert lines[3].split() == [
        "level_0", "MAP@R", f"{spread['mean']:.4f}", "+-", f"{spread['std']:.4f}",
        f"{page['concatenated']['level_0/map_at_r']:.4f}",
    ]  # fmt: skip
    assert lines[-1].split()[:2] == ["all", "violations"]


@pytest.mark.parametrize(
    ("names", "arguments", "sentence"),
    [
        (["fold-0", "fold-1"], [], "their validation images differ; add `--on test`"),
        (["fold-0", "hier"], ["--on", "test"], "must have the same method"),
        (["fold-0", "marked"], ["--on", "test"], "must have the same data set"),
        (["fold-0", "fold-0"], ["--on", "test"], "given twice"),
        (["fold-0"], ["--geometry", "cosine"], "Leave --geometry out: a run knows its own"),
        (["fold-0"], ["--labels", "y.csv"], "Leave --labels out: a run knows its own"),
        (["fold-0"], ["--embeddings", "x.npy"], "both are given"),
        (["nowhere"], [], "not a folder that `hsearch train` has written"),
        ([], [], "Say what to score"),
    ],
)
def test_wrong_runs_are_one_sentence(runs, tmp_path, names, arguments, sentence):
    given = [runs.get(name, tmp_path / name) for name in names]
    refused(tmp_path, [*given, *arguments], sentence)


def refused(folder, arguments, sentence):
    out = folder / "scores.json"
    result = hsearch("evaluate", *arguments, "--out", out)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert re.fullmatch(r"hsearch: error: .*\n", result.stderr)
    assert result.stdout == ""
    assert not out.exists()


def test_a_network_is_scored_on_the_classes_it_learned_from_too(runs):
    seen = evaluated(runs["fold-0"], "--on", "train", "--classify")
    assert seen["scored"]["on"] == "train"
    assert seen["scored"]["images"] != evaluated(runs["fold-0"])["scored"]["images"]
    assert 0 <= seen["metrics"]["linear_accuracy"] <= 1
    result = hsearch("evaluate", runs["fold-0"], runs["fold-1"], "--on", "train")
    assert result.exit_code == 2
    assert "train images differ" in result.stderr


def test_runs_that_are_not_folds_of_one_setting_are_told(runs, toy_store, tmp_path):
    assert hsearch("evaluate", runs["fold-0"], runs["fold-1"], "--on", "test").stderr == ""
    other = tmp_path / "other"
    command = ["train", "--method", "proxy_nca", "--data", toy_store.path, "--out", other]
    assert hsearch(*command, "--seed", 7, *TINY).exit_code == 0
    result = hsearch("evaluate", runs["fold-0"], other, "--on", "test")
    assert result.exit_code == 0, result.output
    assert "differ not only in their fold: seed" in result.stderr

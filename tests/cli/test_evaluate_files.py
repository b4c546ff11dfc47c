"""`hsearch evaluate` as a user runs it on embeddings of another program."""

import csv
import pickle
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsearch.evaluation.evaluate import retrieval_metrics
from tests.cli.test_evaluate import evaluated, hsearch, refused

LABELS = [("big", f"big-{i // 4}") for i in range(12)] + [
    ("small", f"s-{i // 4}") for i in range(8)
]


@pytest.fixture
def files(tmp_path):
    """Noisy embeddings of 20 images in 5 classes of 2 groups, and their labels."""
    rng = np.random.default_rng(1)
    groups = {group: rng.normal(size=8) for group, _ in LABELS}
    classes = {label: rng.normal(size=8) + 1.5 * groups[label[0]] for label in LABELS}
    vectors = np.stack([classes[label] + 0.8 * rng.normal(size=8) for label in LABELS])
    np.save(tmp_path / "x.npy", vectors.astype(np.float32))
    write_csv(tmp_path / "y.csv", ["level_0", "level_1"], LABELS)
    return tmp_path


def write_csv(path: Path, columns, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def of_files(folder, *arguments, labels="y.csv"):
    return ["--embeddings", folder / "x.npy", "--labels", folder / labels, *arguments]


def test_files_are_scored_as_the_function_scores_them(files):
    page = evaluated(*of_files(files, "--recall-at", "1,3", "--alpha", 2))
    vectors = np.load(files / "x.npy")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    labels = np.array([[group == "small", hash((group, name))] for group, name in LABELS])
    expected = retrieval_metrics(vectors, labels, recall_at=(1, 3), whole_list=True, alpha=2.0)
    assert page["metrics"] == pytest.approx(expected)
    assert "recall_at_3" in page["metrics"]
    assert "recall_at_2" not in page["metrics"]
    assert (page["alpha"], page["levels"]) == (2.0, ["level_0", "level_1"])
    assert page["scored"] == {
        "embeddings": str(files / "x.npy"), "labels": str(files / "y.csv"),
        "images": 20, "dimensions": 8,
    }  # fmt: skip
    assert page["metrics"]["h_ap"] != evaluated(*of_files(files))["metrics"]["h_ap"]


def test_a_parquet_of_numbers_gives_the_same_as_a_csv_of_names(files):
    numbers = np.unique([name for _, name in LABELS], return_inverse=True)[1]
    columns = {"level_0": [g == "big" for g, _ in LABELS], "level_1": numbers}
    pq.write_table(pa.table(columns), files / "y.parquet")
    found = evaluated(*of_files(files, labels="y.parquet"))
    assert found["metrics"] == evaluated(*of_files(files))["metrics"]


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ">f4"])
def test_a_perfect_embedding_is_perfect_in_every_metric(files, dtype):
    classes = np.unique([name for _, name in LABELS], return_inverse=True)[1]
    vectors = np.eye(5)[classes]
    vectors[:, 0] += [3 * (group == "big") for group, _ in LABELS]
    np.save(files / "x.npy", vectors.astype(dtype))
    options = ("--geometry", "euclidean", "--classify", "--nmi")
    metrics = evaluated(*of_files(files, *options))["metrics"]
    assert metrics.pop("h_violations") == 0
    assert {"knn_accuracy", "linear_accuracy", "nmi", "level_0/nmi"} <= set(metrics)
    assert metrics == pytest.approx(dict.fromkeys(metrics, 1.0))


def test_cosine_looks_at_directions_euclidean_at_lengths_too(files):
    before = {g: evaluated(*of_files(files, "--geometry", g)) for g in ("cosine", "euclidean")}
    vectors = np.load(files / "x.npy")
    lengths = 2.0 ** np.arange(-10, 10)
    np.save(files / "x.npy", vectors * lengths[:, None])
    assert evaluated(*of_files(files))["metrics"] == pytest.approx(before["cosine"]["metrics"])
    euclidean = evaluated(*of_files(files, "--geometry", "euclidean"))
    assert euclidean["geometry"] == "euclidean"
    assert euclidean["metrics"] != before["euclidean"]["metrics"]


def test_the_ball_is_scored_with_its_curvature(files):
    vectors = np.load(files / "x.npy").astype(np.float64)
    vectors *= 1.9 / np.linalg.norm(vectors, axis=1).max()
    np.save(files / "x.npy", vectors)
    page = evaluated(*of_files(files, "--geometry", "poincare", "--curvature", 0.25))
    labels = np.array([[group == "small", hash((group, name))] for group, name in LABELS])
    expected = retrieval_metrics(
        vectors, labels, geometry="poincare", curvature=0.25, whole_list=True
    )
    assert page["metrics"] == pytest.approx(expected)
    assert (page["geometry"], page["curvature"]) == ("poincare", 0.25)


def test_marks_of_a_table_make_queries_and_gallery(files):
    """The first image of every class queries the others, but the last class has no others."""
    rows = [(*label, i % 4 == 0 or i > 15, i % 4 > 0 and i < 16) for i, label in enumerate(LABELS)]
    write_csv(files / "y.csv", ["level_0", "level_1", "is_query", "is_gallery"], rows)
    page = evaluated(*of_files(files))
    assert page["protocol"] == {
        "kind": "query/gallery", "queries": 8, "gallery": 12, "queries_without_match": 4,
    }  # fmt: skip
    assert (
        "4 queries have no match at the finest level"
        in hsearch("evaluate", *of_files(files)).output
    )


def test_a_label_is_its_whole_path(files):
    """Two groups with a class of the same name have two classes."""
    renamed = [(group, name.replace("small-0", "big-0")) for group, name in LABELS]
    write_csv(files / "z.csv", ["level_0", "level_1"], renamed)
    same = evaluated(*of_files(files, labels="z.csv"))["metrics"]
    assert same == pytest.approx(evaluated(*of_files(files))["metrics"])


def test_one_level_has_one_table_and_other_columns_are_named(files):
    rows = [(name, "train", i) for i, (_, name) in enumerate(LABELS)]
    write_csv(files / "y.csv", ["label", "split", "weight"], rows)
    result = hsearch("evaluate", *of_files(files))
    assert result.exit_code == 0, result.output
    assert result.stderr == "hsearch: note: ignored columns: split, weight\n"
    lines = result.stdout.splitlines()
    assert lines[:2] == [str(files / "x.npy"), "20 images, cosine, self retrieval"]
    assert lines[2].split() == ["METRIC", "LABEL"]
    assert {"MAP@R", "P@1", "ASI"} <= {line.split()[0] for line in lines[3:]}
    assert "H-AP" not in result.stdout


def test_tags_beside_labels_are_ignored_and_named(files):
    metrics = evaluated(*of_files(files))["metrics"]
    columns = {f"level_{i}": [label[i] for label in LABELS] for i in range(2)}
    for tags in (["x;y"] * 20, [["x", "y"]] * 20, [{"x": 1}] * 20):
        pq.write_table(pa.table({**columns, "tags": tags}), files / "y.parquet")
        result = hsearch("evaluate", *of_files(files, "--json", labels="y.parquet"))
        assert result.stderr == "hsearch: note: ignored columns: tags\n"
        assert evaluated(*of_files(files, labels="y.parquet"))["metrics"] == metrics


def _damaged(change):
    return lambda folder: np.save(folder / "x.npy", change(np.load(folder / "x.npy")))


def _with(row, value):
    def change(vectors):
        vectors[row] = value
        return vectors

    return _damaged(change)


def _truncate(folder):
    (folder / "x.npy").write_bytes((folder / "x.npy").read_bytes()[:-8])


def _pickle(folder):
    (folder / "x.npy").write_bytes(pickle.dumps([1.0]))


def _archive(folder):
    with (folder / "x.npy").open("wb") as file:
        np.savez(file, a=[1.0])


def _objects(folder):
    np.save(folder / "x.npy", np.array([[None]], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda f: (f / "x.npy").unlink(), "there is no file"),
        (lambda f: (f / "x.npy").write_text("1,2,3"), "cannot be read as one"),
        (lambda f: (f / "x.npy").write_bytes(b""), "cannot be read as one"),
        (_archive, "cannot be read as one"),
        (_truncate, "cannot be read as one"),
        (_pickle, "cannot be read as one"),
        (_objects, "cannot be read as one"),
        (_damaged(np.ravel), "but"),
        (_damaged(lambda x: x[:, :0]), "Embeddings"),
        (_damaged(lambda x: x[:0]), "Embeddings"),
        (_damaged(lambda x: x.astype(np.int64)), "has int64 of shape (20, 8)"),
        (_damaged(lambda x: x.astype(np.complex64)), "has complex64 of shape (20, 8)"),
        (_damaged(lambda x: x[1:]), "has 19 rows and"),
        (_with((7, 3), np.nan), "be finite numbers, but row 7 of"),
        (_with((7, 3), -np.inf), "be finite numbers, but row 7 of"),
        (_with((7, 3), 1e30), "must be shorter than"),
        (_with(4, 0.0), "no direction (--geometry cosine), but row 4 of"),
    ],
)  # fmt: skip
def test_wrong_embeddings_are_one_sentence(files, damage, sentence):
    damage(files)
    refused(files, of_files(files), sentence)


@pytest.mark.parametrize(
    ("columns", "rows", "sentence"),
    [
        (["label"], [(i,) for i in range(20)], "classes of two or more images"),
        (["name"], [(i % 4,) for i in range(20)], "need the column `label` or"),
        (["lable"], [(i % 4,) for i in range(20)], "did you mean 'label'?"),
        (["level_0", "level_2"], LABELS, "have a gap"),
        (["label", "level_0"], LABELS, "has both"),
        (["label"], [("a",)] * 19 + [("",)], "the first is row 21: empty label"),
        (["label", "is_query"], [("a", "maybe")] * 20, "is_query is not true, false or empty"),
        (["label", "is_query"], [("a", "false")] * 20, "`is_query` must be true or empty"),
        (["label"], [], "has no rows"),
        (["tags"], [("a;b",)] * 20, "one label per row, but"),
        (["path", "tags"], [("a", "b")] * 20, "has `tags`, several labels per image; give each"),
    ],
)  # fmt: skip
def test_wrong_labels_are_one_sentence(files, columns, rows, sentence):
    write_csv(files / "y.csv", columns, rows)
    refused(files, of_files(files), sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--labels", "y.csv"], "--labels belong to --embeddings"),
        (["--embeddings", "x.npy"], "need the --labels"),
        (["--embeddings", "x.npy", "--labels", "no.csv"], "there is no file no.csv"),
        (["--embeddings", "x.npy", "--labels", "."], "come from a .csv or .parquet file"),
        (["--embeddings", "x.npy", "--labels", "x.npy"], "come from a .csv or .parquet file"),
        (["--on", "test"], "Leave --on out: files have one part"),
        (["--geometry", "poincare"], "needs the --curvature"),
        (["--curvature", "1"], "belongs to --geometry poincare alone"),
        (["--geometry", "poincare", "--curvature", "0"], "must be a number above 0"),
        (["--geometry", "poincare", "--curvature", "nan"], "must be a number above 0"),
        (["--geometry", "poincare", "--curvature", "1"], "must have norms below 1"),
        (["--geometry", "hyperbolic"], "is not one of"),
        (["--recall-at", "1,0"], "must be numbers from 1"),
        (["--recall-at", "few"], "must be numbers from 1"),
        (["--alpha", "0"], "must lie in (0, 100]"),
        (["--memory", "0"], "--memory"),
    ],
)
def test_wrong_options_are_one_sentence(files, monkeypatch, arguments, sentence):
    monkeypatch.chdir(files)
    whole = "--embeddings" in arguments or "--labels" in arguments
    given = [] if whole else ["--embeddings", "x.npy", "--labels", "y.csv"]
    refused(files, [*given, *arguments], sentence)


@pytest.mark.parametrize("name", ["x.npy", "y.csv"])
def test_what_is_scored_is_never_overwritten(files, name):
    before = (files / name).read_bytes()
    result = hsearch("evaluate", *of_files(files, "--out", files / name))
    assert result.exit_code == 2
    assert "name another file" in result.stderr
    assert (files / name).read_bytes() == before


def test_scores_that_cannot_be_written_are_still_shown(files):
    result = hsearch("evaluate", *of_files(files, "--out", files / "y.csv" / "scores.json"))
    assert result.exit_code == 2
    assert "MAP@R" in result.stdout
    assert re.fullmatch(r"hsearch: error: The scores cannot be written to .*\n", result.stderr)

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from hsearch.errors import DatasetError, DivergedError
from hsearch.evaluation.evaluate import retrieval_metrics
from tests import golden_files
from tests.evaluation import oracles

PML_NAMES = {
    "mean_average_precision": "map",
    "mean_average_precision_at_r": "map_at_r",
    "precision_at_1": "precision_at_1",
    "r_precision": "r_precision",
}


def random_case(seed: int, n: int = 40, num_classes: int = 6, dim: int = 5):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, n)
    labels[:2] = 0
    centres = rng.normal(size=(num_classes, dim))
    return (centres[labels] + rng.normal(size=(n, dim))).astype(np.float32), labels


def of_level(metrics, level, num_levels):
    prefix = "" if level == num_levels - 1 else f"level_{level}/"
    return {name: metrics[prefix + ours] for name, ours in PML_NAMES.items()}


@pytest.mark.parametrize("name", golden_files.names("metrics_pml*"))
@pytest.mark.parametrize(
    "protocol", ["self_retrieval", "self_retrieval_avg_of_avgs", "query_gallery"]
)
def test_golden_pml(name, protocol):
    meta, arrays = golden_files.load(name)
    embeddings, labels = arrays["embeddings"].astype(np.float32), arrays["labels"]
    queries = np.arange(len(embeddings)) < int(arrays["num_query"])
    disjoint = protocol == "query_gallery"
    found = retrieval_metrics(
        embeddings,
        labels,
        queries=queries if disjoint else None,
        gallery=~queries if disjoint else None,
        full_map=True,
        average="classes" if protocol.endswith("avg_of_avgs") else "queries",
    )
    flat = {
        f"{metric}_level{level}_coarse_to_fine": value
        for level in range(labels.shape[1])
        for metric, value in of_level(found, level, labels.shape[1]).items()
    }
    expected = meta[f"results_{protocol}"]
    assert flat.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(flat[key], value, err_msg=key, **golden_files.tolerance(meta))


@pytest.mark.parametrize("name", golden_files.names("metrics_recall*"))
def test_golden_recall(name):
    meta, arrays = golden_files.load(name)
    fine, ks = arrays["labels"][:, -1], meta["hyperparameters"]["k"]
    found = retrieval_metrics(arrays["embeddings"], fine, recall_at=ks)
    expected = [meta["recall_at_k"][str(k)] for k in ks]
    tolerance = golden_files.tolerance(meta)
    np.testing.assert_allclose([found[f"recall_at_{k}"] for k in ks], expected, **tolerance)


@pytest.mark.parametrize("name", golden_files.names("metrics_recall*"))
def test_golden_recall_in_the_ball(name):
    meta, arrays = golden_files.load(name)
    start = "recall_hyperbolic_at_"
    (key,) = (key for key in meta if key.startswith(start))
    ks = [int(k) for k in key.removeprefix(start).split("_")]
    found = retrieval_metrics(
        arrays["ball_embeddings"],
        arrays["labels"][:, -1],
        geometry="poincare",
        curvature=meta["hyperparameters"]["hyp_c"],
        recall_at=ks,
    )
    tolerance = golden_files.tolerance(meta)
    np.testing.assert_allclose([found[f"recall_at_{k}"] for k in ks], meta[key], **tolerance)


def test_the_golden_metrics_are_there():
    assert {"metrics_pml", "metrics_recall"} <= set(golden_files.names("metrics_*"))


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_self_retrieval_is_that_of_a_loop(seed):
    embeddings, labels = random_case(seed)
    found = retrieval_metrics(embeddings, labels, full_map=True)
    assert found == pytest.approx(oracles.retrieval(embeddings, labels), abs=1e-12)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_retrieval_in_the_ball_is_that_of_a_loop(seed):
    embeddings, labels = random_case(seed)
    embeddings *= 0.99 / np.linalg.norm(embeddings, axis=1).max()
    expected = oracles.retrieval(
        embeddings, labels, distance=lambda x, y: oracles.poincare(x, y, 0.9)
    )
    found = retrieval_metrics(embeddings, labels, geometry="poincare", curvature=0.9, full_map=True)
    assert found == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), share=st.floats(0.1, 0.9), overlap=st.floats(0, 1))
def test_query_and_gallery_may_overlap(seed, share, overlap):
    embeddings, labels = random_case(seed)
    rng = np.random.default_rng(seed)
    queries = rng.random(len(labels)) < share
    gallery = ~queries | (rng.random(len(labels)) < overlap)
    queries[:2] = gallery[:2] = True
    found = retrieval_metrics(embeddings, labels, queries=queries, gallery=gallery, full_map=True)
    expected = oracles.retrieval(embeddings, labels, queries=queries, gallery=gallery)
    assert found == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), values=st.integers(1, 3))
def test_duplicates_are_ranked_by_row(seed, values):
    """Few distinct integer vectors: exact distances with many ties, also with oneself."""
    rng = np.random.default_rng(seed)
    embeddings = rng.integers(0, values, size=(30, 2)).astype(np.float32)
    labels = np.arange(30) % 4
    found = retrieval_metrics(embeddings, labels, full_map=True)
    assert found == pytest.approx(oracles.retrieval(embeddings, labels), abs=1e-12)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), budget=st.sampled_from([1, 5_000, 50_000]))
def test_rows_and_blocks_in_any_order_give_the_same(seed, budget):
    embeddings, labels = random_case(seed)
    order = np.random.default_rng(seed).permutation(len(labels))
    expected = retrieval_metrics(embeddings, labels)
    shuffled = retrieval_metrics(embeddings[order], labels[order], memory_budget=budget)
    assert shuffled == pytest.approx(expected, abs=1e-12)
    assert all(0 <= value <= 1 for value in expected.values())


@pytest.mark.parametrize("spread", [0.0, 1e-3])
@pytest.mark.parametrize("average", ["queries", "classes"])
def test_a_perfect_ranking_scores_exactly_one(spread, average):
    labels = np.repeat(np.arange(7), [2, 3, 4, 5, 6, 7, 40])
    noise = np.random.default_rng(0).normal(size=(len(labels), 7)) * spread
    embeddings = (np.eye(7)[labels] + noise).astype(np.float32)
    found = retrieval_metrics(embeddings, labels, full_map=True, average=average)
    assert set(found.values()) == {1.0}


@pytest.mark.parametrize("average", ["queries", "classes"])
@pytest.mark.parametrize("disjoint", [False, True])
def test_equals_pytorch_metric_learning(average, disjoint):
    embeddings, labels = random_case(1, n=500, num_classes=40, dim=8)
    labels[-1] = 99  # a class of one image
    queries = np.arange(500) < 120
    calculator = AccuracyCalculator(
        include=("precision_at_1", "r_precision", "mean_average_precision_at_r"),
        avg_of_avgs=average == "classes",
        k="max_bin_count",
        device=torch.device("cpu"),
    )
    x, y = torch.tensor(embeddings), torch.tensor(labels)
    if disjoint:
        peer = calculator.get_accuracy(x[queries], y[queries], x[~queries], y[~queries])
        found = retrieval_metrics(x, y, queries=queries, gallery=~queries, average=average)
    else:
        peer = calculator.get_accuracy(x, y)
        found = retrieval_metrics(x, y, average=average)
    assert {name: found[PML_NAMES[name]] for name in peer} == pytest.approx(peer, rel=1e-12)


def test_levels_share_one_search_and_equal_their_own_evaluation():
    embeddings, fine = random_case(3, n=120, num_classes=12)
    coarse = fine // 4
    found = retrieval_metrics(embeddings, np.stack([coarse, fine], axis=1))
    assert next(iter(found)) == "map_at_r"
    alone = retrieval_metrics(embeddings, fine)
    assert {name: found[name] for name in alone} == pytest.approx(alone)
    alone = retrieval_metrics(embeddings, coarse)
    assert {name: found[f"level_0/{name}"] for name in alone} == pytest.approx(alone)
    assert len(found) == 2 * len(alone)


def test_classes_of_one_image_and_classes_missing_in_the_gallery_count_in_no_mean():
    embeddings = np.array([[0.0], [0.1], [5.0], [5.1], [9.0]], dtype=np.float32)
    assert retrieval_metrics(embeddings, [0, 0, 1, 1, 2])["precision_at_1"] == 1.0
    assert retrieval_metrics(embeddings, [0, 0, 1, 2, 3])["precision_at_1"] == 1.0
    queries = np.array([True, False, True, False, False])
    found = retrieval_metrics(embeddings, [0, 0, 1, 3, 3], queries=queries, gallery=~queries)
    assert found["map_at_r"] == 1.0


def test_text_labels():
    embeddings = np.array([[0.0], [0.1], [5.0], [5.1]], dtype=np.float32)
    assert retrieval_metrics(embeddings, ["cat", "cat", "dog", "dog"])["map_at_r"] == 1.0


@pytest.mark.parametrize(
    ("labels", "masks", "message"),
    [
        ([0, 1, 2], {}, "none of 3"),
        ([0, 0], {}, "labels of shape"),
        ([0, 0, 1], {"queries": np.zeros(3, bool)}, "`queries`.*0 set"),
        ([0, 0, 1], {"gallery": np.ones(2, bool)}, "`gallery` must be 3 booleans"),
        ([0, 0, 1], {"gallery": np.array([0, 1, 2])}, "int64"),
    ],
)
def test_what_cannot_be_scored_is_refused(labels, masks, message):
    with pytest.raises(DatasetError, match=message):
        retrieval_metrics(np.eye(3, dtype=np.float32), labels, **masks)


def test_diverged_embeddings_are_refused():
    embeddings, labels = random_case(0)
    embeddings[5] = np.nan
    with pytest.raises(DivergedError, match="row 5"):
        retrieval_metrics(embeddings, labels)


def test_memory_stays_far_below_a_square_matrix():
    """20,000 x 20,000 float32 are 1.6 GB; in float64 even the 4,000 ball queries are 640 MB."""
    script = """
        import resource
        import numpy as np
        from hsearch.evaluation.evaluate import retrieval_metrics

        def run(n, **options):
            x = np.random.default_rng(0).normal(size=(n, 16)).astype(np.float32) * 0.01
            retrieval_metrics(x, np.arange(n) % (n // 10), memory_budget=2**26, **options)

        ball = {"geometry": "poincare", "curvature": 0.1}
        run(1000), run(1000, **ball)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run(20_000), run(20_000, queries=np.arange(20_000) < 4_000, **ball)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 250  # MiB

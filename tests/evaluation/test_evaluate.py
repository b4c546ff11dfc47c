import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from hsearch import distributed
from hsearch.errors import ConfigError, DatasetError, DivergedError
from hsearch.evaluation.evaluate import retrieval_metrics
from tests import golden_files
from tests.evaluation import oracles
from tests.training.ranks import on_ranks

PML_NAMES = {
    "mean_average_precision": "ap",
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


def random_paths(seed, labels, num_levels):
    """Paths (n, L) whose finest labels are `labels`, in a random tree."""
    rng = np.random.default_rng(seed)
    columns = [labels]
    for _ in range(num_levels - 1):
        columns.insert(
            0, rng.integers(0, max(2, columns[0].max()), columns[0].max() + 1)[columns[0]]
        )
    return np.stack(columns, axis=1)


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
        whole_list=True,
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


HAPPIER_NAMES = {"AP": "ap", "P@1": "precision_at_1", "mAP@R": "map_at_r", "ASI": "asi"}


def of_happier(name, num_levels):
    """Our name of a result of the official evaluator, whose level 0 is the finest."""
    metric, _, level = name.rpartition("_level")
    ours = HAPPIER_NAMES.get(metric) or metric.replace("R@", "recall_at_")
    return ours if level == "0" else f"level_{num_levels - 1 - int(level)}/{ours}"


@pytest.mark.parametrize("name", golden_files.names("metrics_happier"))
def test_golden_happier(name):
    meta, arrays = golden_files.load(name)
    parameters = meta["hyperparameters"]
    found = retrieval_metrics(
        arrays["embeddings"],
        arrays["labels"],
        recall_at=parameters["recall_k"],
        alpha=parameters["alpha"],
        whole_list=True,
    )
    depth = arrays["labels"].shape[1]
    expected = {
        of_happier(key, depth): value for key, value in meta["results"].items() if "_level" in key
    }
    expected["h_asi"] = meta["results"]["ASI_multi"]
    expected["h_ndcg"] = meta["results"]["NDCG_multi"]
    if not meta["queries_where_official_hap_deviates_from_formula"]:
        expected["h_ap"] = meta["results"]["H-AP_multi"]
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, err_msg=key, **golden_files.tolerance(meta))
    assert len(expected) > 5 * depth
    np.testing.assert_allclose(found["h_ap"], arrays["hap_per_query_exact"].mean(), rtol=1e-9)


@pytest.mark.parametrize("name", golden_files.names("metrics_happier_tie*"))
def test_golden_happier_with_levels_of_equal_relevance(name):
    """The official code counts images of such levels twice and gets values above 1."""
    meta, arrays = golden_files.load(name)
    found = retrieval_metrics(
        arrays["embeddings"],
        arrays["labels"],
        alpha=meta["hyperparameters"]["alpha"],
        whole_list=True,
    )
    np.testing.assert_allclose(found["h_ap"], arrays["hap_per_query_exact"].mean(), rtol=1e-9)


@pytest.mark.parametrize("name", golden_files.names("metrics_happier_query_gallery*"))
def test_golden_happier_query_and_gallery(name):
    """Only recall: the official code never ranks the farthest image of a disjoint gallery."""
    meta, arrays = golden_files.load(name)
    embeddings = np.concatenate([arrays["query"], arrays["gallery"]])
    labels = np.concatenate([arrays["query_labels"], arrays["gallery_labels"]])
    queries = np.arange(len(embeddings)) < len(arrays["query"])
    found = retrieval_metrics(
        embeddings,
        labels,
        queries=queries,
        gallery=~queries,
        recall_at=meta["hyperparameters"]["recall_k"],
        whole_list=True,
    )
    recalls = {key: value for key, value in meta["results"].items() if key.startswith("R@")}
    assert len(recalls) == labels.shape[1] * len(meta["hyperparameters"]["recall_k"])
    for key, value in recalls.items():
        ours = found[of_happier(key, labels.shape[1])]
        np.testing.assert_allclose(ours, value, err_msg=key, **golden_files.tolerance(meta))


def test_the_golden_metrics_are_there():
    happier = {"metrics_happier", "metrics_happier_tie", "metrics_happier_query_gallery"}
    assert {"metrics_pml", "metrics_recall"} | happier <= set(golden_files.names("metrics_*"))


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    num_levels=st.integers(1, 4),
    alpha=st.sampled_from([0.5, 1.0, 3.0]),
)
def test_self_retrieval_is_that_of_a_loop(seed, num_levels, alpha):
    embeddings, labels = random_case(seed, n=30)
    paths = random_paths(seed, labels, num_levels)
    found = retrieval_metrics(embeddings, paths, whole_list=True, alpha=alpha)
    assert found == pytest.approx(oracles.retrieval(embeddings, paths, alpha=alpha), abs=1e-12)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), num_levels=st.integers(1, 3))
def test_retrieval_in_the_ball_is_that_of_a_loop(seed, num_levels):
    embeddings, labels = random_case(seed)
    embeddings *= 0.99 / np.linalg.norm(embeddings, axis=1).max()
    paths = random_paths(seed, labels, num_levels)
    ball: dict[str, Any] = {"geometry": "poincare", "curvature": 0.9}
    expected = oracles.retrieval(
        embeddings, paths, distance=lambda x, y: oracles.poincare(x, y, 0.9)
    )
    found = retrieval_metrics(embeddings, paths, whole_list=True, **ball)
    assert found == pytest.approx(expected, abs=1e-12)
    short = retrieval_metrics(embeddings, paths, **ball)
    assert short == pytest.approx({name: found[name] for name in short}, abs=1e-12)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), share=st.floats(0.1, 0.9), overlap=st.floats(0, 1))
def test_query_and_gallery_may_overlap(seed, share, overlap):
    embeddings, labels = random_case(seed)
    paths = random_paths(seed, labels, 2)
    rng = np.random.default_rng(seed)
    queries = rng.random(len(labels)) < share
    gallery = ~queries | (rng.random(len(labels)) < overlap)
    queries[:2] = gallery[:2] = True
    masks: dict[str, Any] = {"queries": queries, "gallery": gallery}
    found = retrieval_metrics(embeddings, paths, **masks, whole_list=True)
    assert found == pytest.approx(oracles.retrieval(embeddings, paths, **masks), abs=1e-12)
    short = retrieval_metrics(embeddings, paths, **masks)
    assert short == pytest.approx({name: found[name] for name in short}, abs=1e-12)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), values=st.integers(1, 3))
def test_duplicates_are_ranked_by_row(seed, values):
    """Few distinct integer vectors: exact distances with many ties, also with oneself."""
    rng = np.random.default_rng(seed)
    embeddings = rng.integers(0, values, size=(30, 2)).astype(np.float32)
    labels = rng.permutation(np.arange(30) % 4)
    paths = np.stack([labels // 2, labels], axis=1)
    found = retrieval_metrics(embeddings, paths, whole_list=True)
    assert found == pytest.approx(oracles.retrieval(embeddings, paths), abs=1e-12)
    short = retrieval_metrics(embeddings, paths)
    assert short == pytest.approx({name: found[name] for name in short}, abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    budget=st.integers(1, 100_000),
    whole_list=st.booleans(),
    geometry=st.sampled_from(["sphere", "poincare"]),
)
def test_blocks_of_any_size_give_the_same(seed, budget, whole_list, geometry):
    """Near duplicates: the order of many images hangs on the last bit of their scores."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 90))
    base = rng.normal(size=(6, 7)) * 0.1
    embeddings = (base[rng.integers(0, 6, n)] + rng.normal(size=(n, 7)) * 1e-8).astype(np.float32)
    labels = rng.integers(0, 5, n)
    labels[:2] = 0
    paths = np.stack([labels // 3, labels], axis=1)
    ask: dict[str, Any] = {"geometry": geometry, "curvature": 1.0, "whole_list": whole_list}
    whole = retrieval_metrics(embeddings, paths, **ask)
    found = retrieval_metrics(embeddings, paths, **ask, memory_budget=budget)
    assert found == pytest.approx(whole, rel=1e-13)  # one changed rank makes 1e-5 and more


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), num_levels=st.integers(1, 3))
def test_rows_in_any_order_give_the_same(seed, num_levels):
    embeddings, labels = random_case(seed)
    paths = random_paths(seed, labels, num_levels)
    order = np.random.default_rng(seed).permutation(len(labels))
    expected = retrieval_metrics(embeddings, paths, whole_list=True)
    shuffled = retrieval_metrics(embeddings[order], paths[order], whole_list=True)
    assert shuffled == pytest.approx(expected, abs=1e-12)
    assert all(0 <= value <= 1 for value in expected.values())


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), num_levels=st.integers(1, 3))
def test_hierarchical_ap_is_the_mean_ap_of_the_levels_and_ap_with_one_level(seed, num_levels):
    embeddings, labels = random_case(seed, n=60, num_classes=4)
    labels = np.concatenate([labels, labels])  # every class has two images or more
    embeddings = np.concatenate([embeddings, embeddings + 0.1])
    paths = random_paths(seed, labels, num_levels)
    found = retrieval_metrics(embeddings, paths, whole_list=True, alpha=2.0)
    levels = [found["ap"], *(found[f"level_{level}/ap"] for level in range(num_levels - 1))]
    assert found["h_ap_map"] == pytest.approx(np.mean(levels), rel=1e-12)
    if num_levels == 1:
        assert found["h_ap"] == pytest.approx(found["ap"], rel=1e-12)
        assert found["h_asi"] == pytest.approx(found["asi"], rel=1e-12)


def test_a_label_stands_for_its_whole_path():
    embeddings = np.array([[0.0], [0.1], [0.25], [5.0], [5.1]], dtype=np.float32)
    red = [["car", "red"], ["car", "red"], ["bus", "red"], ["bus", "red"], ["bus", "blue"]]
    numbered = [[0, 0], [0, 0], [1, 1], [1, 1], [1, 2]]
    for whole_list in (False, True):
        found = retrieval_metrics(embeddings, red, whole_list=whole_list)
        assert found == retrieval_metrics(embeddings, numbered, whole_list=whole_list)
    assert found["precision_at_1"] == 2 / 4


def test_collapsed_embeddings_have_no_lucky_order():
    """All images at one point are ranked by row, in lists and in whole rankings."""
    labels = np.random.default_rng(0).permutation(np.arange(200) % 20)
    embeddings = np.ones((200, 3), dtype=np.float32)
    found = retrieval_metrics(embeddings, labels, whole_list=True)
    assert found == pytest.approx(oracles.retrieval(embeddings, labels), abs=1e-12)
    short = retrieval_metrics(embeddings, labels)
    assert short == pytest.approx({name: found[name] for name in short}, abs=1e-12)


@pytest.mark.parametrize("spread", [0.0, 1e-3])
@pytest.mark.parametrize("average", ["queries", "classes"])
def test_a_perfect_ranking_scores_exactly_one(spread, average):
    labels = np.repeat(np.arange(7), [2, 3, 4, 5, 6, 7, 40])
    noise = np.random.default_rng(0).normal(size=(len(labels), 7)) * spread
    embeddings = (np.eye(7)[labels] + noise).astype(np.float32)
    paths = np.stack([labels // 7, labels], axis=1)
    found = retrieval_metrics(embeddings, paths, whole_list=True, average=average)
    assert found.pop("h_violations") == 0.0
    assert list(found.values()) == pytest.approx([1.0] * len(found), rel=1e-14)


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


@pytest.mark.parametrize("whole_list", [False, True])
def test_progress_is_told_until_all_queries_are_done(whole_list):
    embeddings, labels = random_case(2, n=530)
    told = []
    retrieval_metrics(
        embeddings,
        labels,
        whole_list=whole_list,
        memory_budget=200_000,
        progress=lambda done, total: told.append((done, total)),
    )
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1] == (530, 530)
    assert {total for _, total in told} == {530}


def test_a_failure_on_the_way_leaves_the_threads_of_torch_as_they_were():
    embeddings, labels = random_case(2, n=530)
    before = torch.get_num_threads()

    def stop(done, total):
        raise KeyboardInterrupt

    try:
        torch.set_num_threads(2)
        with pytest.raises(KeyboardInterrupt):
            retrieval_metrics(embeddings, labels, whole_list=True, progress=stop)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000), whole_list=st.booleans())
def test_the_number_of_threads_does_not_count(seed, whole_list):
    embeddings, labels = random_case(seed, n=200)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(retrieval_metrics(embeddings, labels, whole_list=whole_list))
    finally:
        torch.set_num_threads(before)
    assert found[1] == pytest.approx(found[0], rel=1e-13)
    assert found[2] == pytest.approx(found[0], rel=1e-13)


@pytest.mark.parametrize("whole_list", [False, True])
@pytest.mark.parametrize("offset", [10.0, 1e4])
def test_what_all_embeddings_have_in_common_does_not_drown_their_differences(offset, whole_list):
    """As of an untrained or collapsing network: all cosines are 1 in float32."""
    small, labels = random_case(3, n=100, num_classes=10, dim=8)
    common = offset + small.astype(np.float64)
    found = retrieval_metrics(common, labels, whole_list=whole_list)
    expected = oracles.retrieval(common, labels)
    assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-25, 1e-3, 1e15])
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16 tensor", "big-endian", "strided"])
def test_embeddings_of_any_kind_and_scale(scale, kind):
    embeddings, labels = random_case(4, n=60)
    points: Any = np.float64(embeddings) * scale
    if kind == "bfloat16 tensor":
        points = torch.tensor(points).bfloat16()
        embeddings = (points.double() / scale).numpy()
    elif kind == "strided":
        points = np.repeat(points, 2, axis=1)[::-1, ::2][::-1]
    else:
        points = points.astype({"big-endian": ">f8"}.get(kind, kind))
    expected = oracles.retrieval(np.float64(embeddings), labels)
    for whole_list in (False, True):
        found = retrieval_metrics(points, labels, whole_list=whole_list)
        assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-12)


def test_points_at_the_border_of_the_ball_are_judged_exactly():
    """Squared in float32 they seem to lie on the other side."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4000, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    squares = (vectors.astype(np.float64) ** 2).sum(axis=1)
    seeming = np.einsum("nd,nd->n", vectors, vectors)
    outside = vectors[(squares > 1) & (seeming < 1)]
    inside = vectors[(squares < 1) & (seeming >= 1)]
    assert len(outside)
    assert len(inside)
    rest = 0.5 * vectors[:5]
    ball: dict[str, Any] = {"geometry": "poincare", "curvature": 1.0}
    with pytest.raises(ConfigError, match="norms below 1"):
        retrieval_metrics(np.concatenate([outside[:1], rest]), [0, 0, 1, 1, 2, 2], **ball)
    retrieval_metrics(np.concatenate([inside[:1], rest]), [0, 0, 1, 1, 2, 2], **ball)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"geometry": "cosine"}, "sphere or poincare"),
        ({"average": "class"}, "queries or classes"),
        ({"recall_at": (0, 1)}, "numbers from 1"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1e4}, "alpha"),
    ],
)
def test_wrong_requests_are_refused(given, message):
    embeddings, labels = random_case(0)
    with pytest.raises(ConfigError, match=message):
        retrieval_metrics(embeddings, labels, **given)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (4,), (4, 2, 2)])
def test_what_is_no_table_of_embeddings_is_refused(shape):
    with pytest.raises(DatasetError, match="one row per image"):
        retrieval_metrics(np.ones(shape), [0] * shape[0])


def scored_together(seed: int, whole_list: bool) -> dict[str, float]:
    """Every rank scores a part; a second evaluation shows that nobody waits for anybody."""
    embeddings, labels = random_case(seed, n=530, num_classes=40)
    paths = random_paths(seed, labels, 3)
    alone = retrieval_metrics(embeddings, paths, whole_list=whole_list)
    shared = retrieval_metrics(embeddings, paths, whole_list=whole_list, sharded=True)
    assert shared == alone
    return shared


@pytest.mark.parametrize("whole_list", [False, True])
def test_ranks_share_the_queries_and_get_the_same_numbers(whole_list):
    embeddings, labels = random_case(5, n=530, num_classes=40)
    paths = random_paths(5, labels, 3)
    queried = []

    def keep(values):
        queried.append(values)
        return [values]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "rank", lambda: 1)
        patch.setattr(distributed, "world_size", lambda: 3)
        patch.setattr(distributed, "gather_objects", keep)
        retrieval_metrics(embeddings, paths, whole_list=whole_list, sharded=True)
    (values,) = queried
    share = np.count_nonzero(values["level_0/recall_at_8"]) / 530
    assert 0.1 < share < 0.6  # one of three ranks has not scored everything
    expected = retrieval_metrics(embeddings, paths, whole_list=whole_list)
    assert on_ranks(scored_together, 5, whole_list) == expected


def test_memory_stays_within_the_budget():
    """40,000 x 40,000 float32 are 6.4 GB; what the keys of 2,000 ball queries alone are, 640 MB."""
    script = """
        from pathlib import Path
        import numpy as np
        from hsearch.evaluation.evaluate import retrieval_metrics

        def run(n, **options):
            x = np.random.default_rng(0).normal(size=(n, 16)).astype(np.float32) * 0.01
            fine = np.arange(n) % (n // 10)
            retrieval_metrics(x, np.stack([fine % 40, fine % 200, fine], axis=1), **options)

        def peak():  # not `ru_maxrss`, which a new process has from the one that started it
            status = Path("/proc/self/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0]) / 1024

        ball = {"geometry": "poincare", "curvature": 0.1, "whole_list": True}
        run(1000), run(1000, whole_list=True), run(1000, **ball)
        before = peak()
        few = np.arange(40_000) < 2_000
        run(40_000, queries=few, memory_budget=2**27, **ball)
        run(40_000, queries=few, memory_budget=2**27, whole_list=True)
        small = peak() - before
        run(40_000, queries=np.arange(40_000) < 8_000, whole_list=True)
        print(small, peak() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    small, default = map(float, done.stdout.split())
    assert small < 128 + 50  # MiB: the budget, and copies of labels and points
    assert default < 1024 + 50

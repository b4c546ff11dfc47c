"""Metrics of whole evaluations against loops, and what must hold of them."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from hsearch.evaluation.evaluate import retrieval_metrics
from tests.evaluation import oracles
from tests.evaluation.cases import random_case, random_paths
from tests.evaluation.test_golden_metrics import PML_NAMES


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


@pytest.mark.parametrize("whole_list", [False, True])
@pytest.mark.parametrize("offset", [10.0, 1e4])
def test_what_all_embeddings_have_in_common_does_not_drown_their_differences(offset, whole_list):
    """As of an untrained or collapsing network: all cosines are 1 in float32."""
    small, labels = random_case(3, n=100, num_classes=10, dim=8)
    common = offset + small.astype(np.float64)
    found = retrieval_metrics(common, labels, whole_list=whole_list)
    expected = oracles.retrieval(common, labels)
    assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-12)

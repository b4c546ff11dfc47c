import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.evaluation.hierarchical import HierarchicalScores
from hsearch.results import ALL_LEVEL_METRICS
from tests.evaluation import oracles


def score(levels, depth, *, alpha=1.0, own=False):
    """Scores one query by the ranked levels of its whole gallery."""
    counts = np.array([[levels.count(level) for level in range(depth + 1)]])
    scores = HierarchicalScores(counts, np.array([own]), alpha=alpha, device=torch.device("cpu"))
    ranks = [rank for rank, level in enumerate(levels, 1) if level]
    found = scores.scores(
        torch.tensor([0]),
        torch.tensor([ranks]),
        torch.tensor([[level for level in levels if level]], dtype=torch.uint8),
    )
    assert tuple(found) == ALL_LEVEL_METRICS
    return {name: float(value) for name, value in found.items()}


def test_a_hand_worked_query():
    """One cousin (level 1) before one brother (level 2), strangers behind each.

    rel(2) = 1, rel(1) = 1/2: Hrank of the cousin at rank 1 is 1/2, of the brother at rank 3
    1 + 1/2. The ideal list is brother, cousin; of the top 2 one is right. One of the pairs
    cousin-brother, 2 x brother-stranger, 2 x cousin-stranger is broken, and one stranger is before
    the brother.
    """
    found = score([1, 0, 2, 0], 2)
    assert found["h_ap"] == pytest.approx((1 / 2 + (3 / 2) / 3) / (3 / 2))
    assert found["h_asi"] == pytest.approx((0 + 1 / 2) / 2)
    ideal = 3 + 1 / np.log2(3)
    assert found["h_ndcg"] == pytest.approx((1 + 3 / 2) / ideal)
    assert found["h_violations"] == pytest.approx(2 / 5)


@settings(deadline=None, max_examples=150)
@given(
    levels=st.lists(st.integers(0, 4), min_size=1, max_size=14).filter(any),
    alpha=st.sampled_from([0.5, 1.0, 4.0]),
    own=st.booleans(),
)
def test_any_ranking_scores_as_in_a_loop(levels, alpha, own):
    expected = oracles.hierarchical(levels, 4, alpha, own)
    expected["h_violations"] = expected["h_violations"] or 0.0
    found = score(levels, 4, alpha=alpha, own=own)
    assert found == pytest.approx(expected, abs=1e-13)
    assert all(-1e-15 <= value <= 1 + 1e-15 for value in found.values())


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=20).filter(any))
def test_a_perfect_ranking_scores_one_and_breaks_nothing(levels):
    found = score(sorted(levels, reverse=True), 3)
    assert found.pop("h_violations") == 0.0
    # A level with more relevance than a finer one, because it has few images, spoils H-AP alone.
    del found["h_ap"]
    assert list(found.values()) == pytest.approx([1.0] * 3, rel=1e-13)


def test_levels_of_equal_relevance_are_counted_once():
    """L = 2, two brothers and one cousin: rel = 1/2 for both; the official code counts twice."""
    assert score([2, 1, 2], 2)["h_ap"] == pytest.approx(1.0)
    assert score([0, 2, 1, 2], 2)["h_ap"] == pytest.approx((1 / 2 + 2 / 3 + 3 / 4) / 3)


def test_the_worst_ranking_breaks_every_pair():
    assert score([0, 0, 1, 1, 2], 2)["h_violations"] == 1.0

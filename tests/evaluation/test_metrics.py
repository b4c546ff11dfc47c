import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.errors import DatasetError
from hsearch.evaluation.metrics import RetrievalScores
from tests.evaluation import oracles

NOBODY = np.array([-1])


def test_a_hand_worked_query():
    """R = 3, hits at positions 1, 3 and 6 of 6.

    Prec@1 = 1, Prec@3 = 2/3, Prec@6 = 1/2; the first 3 hold 2 hits.
    """
    scores = RetrievalScores(["a"], list("abaabb"), NOBODY, full_map=True)
    scores.add(slice(0, 1), np.array([[0, 1, 2, 4, 5, 3]]))
    assert scores.means() == pytest.approx(
        {
            "precision_at_1": 1,
            "r_precision": 2 / 3,
            "map_at_r": (1 + 2 / 3) / 3,
            "map": (1 + 2 / 3 + 1 / 2) / 3,
            "recall_at_1": 1,
            "recall_at_2": 1,
            "recall_at_4": 1,
            "recall_at_8": 1,
        }
    )


def test_a_query_whose_first_hit_comes_late():
    scores = RetrievalScores([7], [1, 2, 3, 7], NOBODY, recall_at=(1, 3, 4, 100))
    scores.add(slice(0, 1), np.array([[2, 1, 0, 3]]))
    found = scores.means()
    assert [found[f"recall_at_{k}"] for k in (1, 3, 4, 100)] == [0, 0, 1, 1]
    assert found["map_at_r"] == found["precision_at_1"] == 0


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_ranking_scores_as_in_a_loop(data):
    num_references = data.draw(st.integers(2, 12))
    labels = data.draw(
        st.lists(st.integers(0, 3), min_size=num_references, max_size=num_references)
    )
    queries = data.draw(st.lists(st.sampled_from(labels), min_size=1, max_size=6))
    ranks = [data.draw(st.permutations(range(num_references))) for _ in queries]
    scores = RetrievalScores(queries, labels, np.full(len(queries), -1), full_map=True)
    cut = data.draw(st.integers(0, len(queries)))
    for rows in (slice(0, cut), slice(cut, len(queries))):
        scores.add(rows, np.array(ranks[rows], dtype=np.int64).reshape(-1, num_references))
    for query, (label, rank) in enumerate(zip(queries, ranks, strict=True)):
        expected = oracles.scores([int(labels[row] == label) for row in rank], (1, 2, 4, 8))
        assert expected is not None
        assert {name: values[query] for name, values in scores.per_query.items()} == pytest.approx(
            expected
        )
    for value in scores.means().values():
        assert 0 <= value <= 1


def test_averages_over_queries_and_over_classes():
    """Class 0 has three queries with P@1 = 1, class 1 one with 0; the lone class 2 counts never."""
    scores = RetrievalScores([0, 0, 0, 1, 2], [0, 1], np.full(5, -1), recall_at=())
    scores.add(slice(0, 5), np.array([[0], [0], [0], [0], [0]]))
    assert scores.means()["precision_at_1"] == 3 / 4
    assert scores.means("classes")["precision_at_1"] == 1 / 2


@pytest.mark.parametrize(
    ("labels", "recall_at", "full_map", "depth"),
    [
        ([0, 0, 0, 0, 1, 1], (1, 2), False, 3),  # the largest R, its own image not counted
        ([0, 0, 1, 1, 2, 2], (1, 4), False, 4),  # the largest k
        ([0, 0, 1, 1, 2, 2], (1, 100), False, 6),  # no more than there are
        ([0, 0, 1, 1, 2, 2], (1,), True, 6),
    ],
)
def test_only_as_many_neighbors_as_needed(labels, recall_at, full_map, depth):
    scores = RetrievalScores(labels, labels, np.arange(6), recall_at=recall_at, full_map=full_map)
    assert scores.depth == depth


def test_a_short_list_ending_in_minus_one_has_no_hit_there():
    scores = RetrievalScores([5, 6], [6, 5, 5], np.array([1, -1]), full_map=True)
    scores.add(slice(0, 2), np.array([[0, 2, -1], [0, 1, 2]]))
    assert scores.per_query["map"].tolist() == [0.5, 1.0]


def test_no_relevant_item_at_all_is_an_error():
    with pytest.raises(DatasetError, match="none of 3 has one"):
        RetrievalScores([0, 1, 2], [0, 1, 2], np.arange(3))

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.evaluation.metrics import level_scores, ranks_of_hits
from hsearch.results import ALL_LEVEL_METRICS, metric_names
from tests.evaluation import oracles


def test_a_hand_worked_query():
    """R = 3, hits at ranks 1, 3 and 6 of 6.

    Prec@1 = 1, Prec@3 = 2/3, Prec@6 = 1/2; the first 3 hold 1, 1 and 2 hits.
    """
    ranks = ranks_of_hits(torch.tensor([[True, False, True, False, False, True]]))
    assert ranks.tolist() == [[1, 3, 6]]
    found = level_scores(ranks, torch.tensor([3]), (1, 2, 4, 8), whole_list=True)
    assert set(found) == set(metric_names(1)) - set(ALL_LEVEL_METRICS)
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        {
            "precision_at_1": 1,
            "r_precision": 2 / 3,
            "map_at_r": (1 + 2 / 3) / 3,
            "ap": (1 + 2 / 3 + 1 / 2) / 3,
            "asi": (1 + 1 / 2 + 2 / 3) / 3,
            "recall_at_1": 1,
            "recall_at_2": 1,
            "recall_at_4": 1,
            "recall_at_8": 1,
        }
    )


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.booleans(), min_size=12, max_size=12), min_size=1, max_size=5))
def test_any_ranking_scores_as_in_a_loop(rows):
    hits = torch.tensor(rows)
    found = level_scores(ranks_of_hits(hits), hits.sum(dim=1), (1, 3, 5), whole_list=True)
    for query, row in enumerate(rows):
        expected = oracles.scores([int(hit) for hit in row], (1, 3, 5)) if any(row) else None
        for name, values in found.items():
            value = float(values[query])
            assert value == pytest.approx(expected[name] if expected else 0.0, abs=1e-14)


def test_hits_keep_the_ranks_they_are_given():
    hits = torch.tensor([[False, True, True], [False, False, False], [True, False, False]])
    found = ranks_of_hits(hits, torch.tensor([[2, 5, 9], [1, 2, 3], [4, 6, 8]]))
    assert found.tolist() == [[5, 9], [np.inf, np.inf], [4, np.inf]]


def test_a_list_without_any_hit_scores_nothing():
    hits = torch.zeros(2, 5, dtype=torch.bool)
    found = level_scores(ranks_of_hits(hits), torch.tensor([3, 0]), (1, 2), whole_list=False)
    assert {float(value) for values in found.values() for value in values} == {0.0}

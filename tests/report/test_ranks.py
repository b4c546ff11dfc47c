"""Ranks over several data sets, against scipy, published tables and counting."""

import math

import numpy as np
import pytest
from scipy import stats

from hsearch.report.ranks import critical_difference, friedman_p, ranks_differ, ranks_of


def test_ranks_begin_with_the_best_and_ties_share_theirs():
    ranks = ranks_of(np.array([[0.5, 0.7, 0.6], [0.4, 0.4, 0.1]]))
    assert ranks.tolist() == [[3, 1, 2], [1.5, 1.5, 3]]


@pytest.mark.parametrize(
    ("methods", "quantile"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)]
)
def test_the_critical_difference_is_that_of_the_published_table(methods, quantile):
    """Table 5 (a) of Demsar, JMLR 2006."""
    expected = quantile * math.sqrt(methods * (methods + 1) / (6 * 14))
    assert critical_difference(14, methods) == pytest.approx(expected, abs=1e-3)


def test_friedman_agrees_with_scipy_on_many_data_sets():
    scores = np.random.default_rng(0).normal([0.0, 0.05, 0.1, 0.35], 1, (60, 4))
    expected = stats.friedmanchisquare(*scores.T).pvalue
    assert friedman_p(ranks_of(scores)) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("data_sets", "methods"), [(2, 3), (3, 3), (4, 2)])
def test_friedman_is_exact_on_few_data_sets(data_sets, methods):
    """The same order everywhere: all data sets but the first must repeat one of M! orders."""
    scores = np.tile(np.arange(methods, dtype=float), (data_sets, 1))
    expected = math.factorial(methods) ** -(data_sets - 1)
    assert friedman_p(ranks_of(scores)) == pytest.approx(expected, abs=0.015)


def test_only_ranks_that_lie_far_apart_differ():
    same_order = np.tile([0.9, 0.8, 0.1], (8, 1))
    assert ranks_differ(ranks_of(same_order)) == [(0, 2)], "neighbours are within 1.17 ranks"
    assert ranks_differ(ranks_of(same_order[:2])) == [], "two data sets are luck"
    assert ranks_differ(ranks_of(np.full((8, 3), 0.5))) == []

"""Methods compared over several data sets by their ranks: Friedman's test, then Nemenyi's.

Every data set gives every method one rank, by its mean score. Scores of different data sets cannot
be averaged, their ranks can. Friedman's test asks whether the ranks are more than luck; Nemenyi's
critical difference is how far two mean ranks must lie apart to be told apart, all pairs taken
together. Both are usually read from limits for many data sets; for few, these claim too much (four
wins out of four would be significant), so Friedman's p-value is taken from permuted ranks, which is
right for any number, and where it is not below 5 %, nothing is told apart.

Wilcoxon's signed-rank test with Holm's correction is often advised instead, because its verdict on
two methods does not depend on the others (Benavoli et al.). But below six data sets its p-value
cannot be under 5 % whatever the scores are, and few comparisons have six.

References:
    Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006.
    Benavoli, Corani and Mangili, "Should we really use post-hoc tests based on mean-ranks?",
    JMLR 2016, arXiv:1505.02288.
"""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hsearch.report.statistics import ALPHA, Pair

_PERMUTATIONS = 10_000


def ranks_of(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns (N, M) ranks within each data set, 1 the best; equal scores share their mean rank."""
    ranks: NDArray[np.float64] = stats.rankdata(-scores, axis=1)
    return ranks


def friedman_p(ranks: NDArray[np.float64], *, seed: int = 0) -> float:
    """Returns the p-value of "all methods are alike", from ranks permuted in every data set.

    Args:
        ranks: (N, M) of data sets and methods.
        seed: Of the permutations.
    """
    repeated = np.repeat(ranks[None], _PERMUTATIONS, axis=0)
    permuted = np.random.default_rng(seed).permuted(repeated, axis=2)
    spread = np.square(permuted.sum(axis=1)).sum(axis=1)  # rises with Friedman's statistic
    observed = np.square(ranks.sum(axis=0)).sum()
    return float(1 + np.count_nonzero(spread >= observed - 1e-9)) / (1 + _PERMUTATIONS)


def critical_difference(data_sets: int, methods: int) -> float:
    """Returns Nemenyi's smallest difference of mean ranks that tells two methods apart at 5 %."""
    studentized = float(stats.studentized_range.ppf(1 - ALPHA, methods, np.inf)) / np.sqrt(2)
    return float(studentized * np.sqrt(methods * (methods + 1) / (6 * data_sets)))


def ranks_differ(ranks: NDArray[np.float64]) -> list[Pair]:
    """Returns the pairs of methods whose ranks tell them apart."""
    if friedman_p(ranks) >= ALPHA:
        return []
    means, enough = ranks.mean(axis=0), critical_difference(*ranks.shape)
    pairs = combinations(range(len(means)), 2)
    return [(i, j) for i, j in pairs if abs(means[i] - means[j]) >= enough]

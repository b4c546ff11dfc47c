"""Intervals and tests for methods that were run several times and asked the same queries.

What is claimed. A method's score has two sources of noise. Training: another seed gives another
network. Queries: another sample of test images gives another mean. "A is better than B" should
survive both, so two tests are made for every pair of methods:

- The paired t-test over runs. Runs of the same number share their seed, so the differences of runs
  are paired. It knows the noise of training, but takes these very queries for the whole world.
- The paired bootstrap over queries. A bootstrap of run-averaged scores would know the queries
  alone, and to demand it beside the t-test would not help: where both noises have the same standard
  error s, the mean difference has sqrt(2) s, but each test believes in s; two equally good methods
  would then be told apart in 17 % of cases, not in 5 %. So every resample draws runs as well as
  queries (Owen's pigeonhole bootstrap); of R runs it draws R - 1, which makes the variance of their
  mean unbiased (Rao and Wu). It errs on the careful side: what a query does in one run alone counts
  three times. For few runs its tails are still too light; the t-test's are not.

Two methods are told apart only where both tests say so after correction. Without scores per query
the t-test decides alone, and the claim is about these queries; with a single shared run nothing is
known of the noise of training, and nothing is told apart.

No training. Every method is tested against its floor, what the backbone scores untrained, in the
same two ways. The floor is one evaluation without a seed: over runs the paired t-test becomes that
of one sample against the floor's score, and the bootstrap draws the method's runs, and the same
queries for both. That a method is better than no training, or worse, is claimed only where both
tests say so; otherwise it cannot be told.

Correction. The best method is the best partly by luck: comparing the others with it is a choice
made after looking. Holm's correction therefore runs over all pairs of methods, not only over those
with the best one, separately for each test. So among methods that are all alike, the chance to tell
any two apart is at most about 5 %, however many there are. Tests against floors answer another
question and are a family of their own, one test per method: among methods that no training has
helped or hurt, the chance to claim it of any is at most about 5 %. Every table has such families of
its own: several metrics, kinds of embeddings or data sets are several chances.

What is not covered. Queries are drawn one by one, although images of one class succeed and fail
together: the claim is about these test classes. Knobs are those that one search found: another
search might find others, and runs do not repeat it.

References:
    Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statistics 1979.
    Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 2007, arXiv:0712.1111.
    Rao and Wu, "Resampling inference with complex survey data", JASA 1988.
    Piepho, "An algorithm for a letter-based representation of all-pairwise comparisons", Journal of
    Computational and Graphical Statistics 2004.
    Bouthillier et al., "Accounting for variance in machine learning benchmarks", MLSys 2021,
    arXiv:2103.03098.
"""

import string
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

ALPHA = 0.05
"""The chance of a false claim that is accepted."""

RESAMPLES = 10_000
_BLOCK = 4_000_000  # drawn queries at a time, 32 MB

Pair = tuple[int, int]

FLOOR = -1
"""The second of a pair that is a method and its floor."""


def paired_t_test(differences: Sequence[float]) -> float | None:
    """Returns the two-sided p-value of "their mean is 0", or None below two differences."""
    count = len(differences)
    if count < 2:
        return None
    mean, error = np.mean(differences), np.std(differences, ddof=1) / np.sqrt(count)
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * stats.t.sf(abs(mean) / error, count - 1))


def paired_bootstrap(
    scores: NDArray[np.float32],
    floors: NDArray[np.float32] | None = None,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[Pair, float]:
    """Returns two-sided p-values of "both are equally good", over queries and runs, by pair.

    A resample draws Q queries, the same for all methods, and R - 1 of a pair's R shared runs; p is
    the share of resamples in which the pair's mean difference strays from the observed one at least
    as far as that is from 0, counting the observed one as a resample: never 0.

    Args:
        scores: (M, R, Q) of methods, runs and queries; a run that a method lacks is all NaN.
        floors: (M, Q) of each method's floor; one that is missing is all NaN.
        seed: Of the draws.
        resamples: The smallest p is 1 / (resamples + 1).

    Returns:
        p by (i, j) with i < j, and by (i, FLOOR) of methods with a floor; pairs without a shared
        run are absent.
    """
    rng = np.random.default_rng(seed)
    count, width, queries = scores.shape
    pairs: list[Pair] = list(combinations(range(count), 2))
    series = scores.reshape(count * width, queries)
    if floors is not None:
        pairs += [(i, FLOOR) for i in range(count)]
        series = np.concatenate([series, floors])
    observed = series.mean(axis=1, dtype=np.float64)  # NaN of what is missing
    means = _resampled_means(np.nan_to_num(series), rng, resamples)
    found = {}
    for i, j in pairs:
        ones = np.arange(i * width, (i + 1) * width)
        others = np.full(width, count * width + i) if j == FLOOR else ones + (j - i) * width
        differences = observed[ones] - observed[others]  # (R,)
        shared = np.flatnonzero(~np.isnan(differences))
        if not len(shared):
            continue
        drawn = shared[rng.integers(len(shared), size=(resamples, max(1, len(shared) - 1)))]
        runs = means[:, ones] - means[:, others]  # (resamples, R)
        resampled = np.take_along_axis(runs, drawn, axis=1).mean(axis=1)
        centre = differences[shared].mean()
        stray = np.count_nonzero(abs(resampled - centre) >= abs(centre) - 1e-7)
        found[i, j] = (1 + int(stray)) / (1 + resamples)
    return found


def _resampled_means(
    series: NDArray[np.float32], rng: np.random.Generator, resamples: int
) -> NDArray[np.float64]:
    """Returns (resamples, S): means of S series over queries drawn with replacement."""
    count, queries = series.shape
    means = np.empty((resamples, count))
    block = max(1, _BLOCK // queries)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = rng.integers(queries, size=(rows, queries), dtype=np.int32)
        counts = np.empty((rows, queries), np.float32)
        for number, row in enumerate(drawn):
            counts[number] = np.bincount(row, minlength=queries)
        means[start : start + rows] = counts @ series.T / queries
    return means


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns adjusted p-values in the given order: those below a level hold together at it."""
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    steps = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
    adjusted = np.empty(len(p_values))
    adjusted[order] = steps
    return [float(p) for p in adjusted]


def groups(count: int, different: Sequence[Pair]) -> list[list[int]]:
    """Returns the largest groups of methods of which no two differ, sorted; they may overlap.

    Piepho's insert and absorb: one group of all is split at every pair that differs, and groups
    inside others are dropped. Two methods stand in no common group if and only if they differ.

    Args:
        count: Of methods, numbered from 0.
        different: Pairs that are told apart.
    """
    found = [frozenset(range(count))]
    for i, j in different:
        split = [part for g in found for part in ({g - {i}, g - {j}} if {i, j} <= g else {g})]
        found = [g for g in dict.fromkeys(split) if not any(g < other for other in split)]
    return sorted(sorted(group) for group in found)


def group_letters(count: int, different: Sequence[Pair]) -> list[str]:
    """Returns each method's `groups` as letters, `a` being the group of method 0."""
    found = groups(count, different)
    return [
        "".join(_letter(k) for k, group in enumerate(found) if method in group)
        for method in range(count)
    ]


def _letter(number: int) -> str:
    """Returns a, b, ... z, and then a1, b1, ..."""
    more, place = divmod(number, len(string.ascii_lowercase))
    return string.ascii_lowercase[place] + (str(more) if more else "")

"""Which methods of a table can be told apart; `hsearch.report.statistics` says why in this way."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hsearch.intervals import mean_of
from hsearch.report.statistics import (
    ALPHA,
    RESAMPLES,
    Pair,
    holm,
    paired_bootstrap,
    paired_t_test,
)
from hsearch.report.values import Contrast, Estimate


def estimate(values: Sequence[float]) -> Estimate:
    """Returns the mean of at least one value, with its interval if there are two."""
    found = mean_of(values)
    return Estimate(mean=found.mean, low=found.low, high=found.high)


def contrasts(
    names: Sequence[str],
    runs: Sequence[Mapping[int, float]],
    queries: NDArray[np.float32] | None,
    *,
    resamples: int = RESAMPLES,
) -> tuple[Contrast, ...]:
    """Returns every pair of methods with both tests and the verdict.

    Args:
        names: M of them, the best first.
        runs: Score by seed, of each method.
        queries: (M, R, Q) scores query by query, NaN for runs that a method lacks; None without.
        resamples: Of the bootstrap.
    """
    pairs = list(combinations(range(len(names)), 2))
    differences = {(i, j): _differences(runs[i], runs[j]) for i, j in pairs}
    by_runs = {pair: paired_t_test(found) for pair, found in differences.items()}
    by_queries = {} if queries is None else paired_bootstrap(queries, resamples=resamples)
    p_runs = _adjusted({pair: p for pair, p in by_runs.items() if p is not None})
    p_queries = _adjusted(by_queries)
    return tuple(
        Contrast(
            one=names[i],
            other=names[j],
            difference=estimate(found) if found else None,
            runs=len(found),
            p_runs=p_runs.get((i, j)),
            p_queries=p_queries.get((i, j)),
            different=_different(p_runs.get((i, j)), p_queries.get((i, j))),
        )
        for (i, j), found in differences.items()
    )


def _differences(one: Mapping[int, float], other: Mapping[int, float]) -> list[float]:
    return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]


def _adjusted(p_values: Mapping[Pair, float]) -> dict[Pair, float]:
    return dict(zip(p_values, holm(list(p_values.values())), strict=True))


def _different(p_runs: float | None, p_queries: float | None) -> bool:
    return p_runs is not None and max(p_runs, p_queries or 0.0) < ALPHA

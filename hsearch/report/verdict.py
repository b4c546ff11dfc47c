"""Which methods of a table can be told apart, and from no training.

`hsearch.report.statistics` says why in this way.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from hsearch.intervals import mean_of
from hsearch.report.statistics import ALPHA, FLOOR, Pair, holm, paired_t_test
from hsearch.report.values import AgainstFloor, Better, Contrast, Estimate, Floor

ONE_RUN = "one run says nothing about the noise of training"
NO_FLOOR = "its floor is not recorded"


def estimate(values: Sequence[float]) -> Estimate:
    """Returns the mean of at least one value, with its interval if there are two."""
    found = mean_of(values)
    return Estimate(mean=found.mean, low=found.low, high=found.high)


def contrasts(
    names: Sequence[str],
    runs: Sequence[Mapping[int, float]],
    by_queries: Mapping[Pair, float],
) -> tuple[Contrast, ...]:
    """Returns every pair of methods with both tests and the verdict.

    Args:
        names: M of them, the best first.
        runs: Score by seed, of each method.
        by_queries: What `paired_bootstrap` returned for them; empty without scores by query.
    """
    pairs = list(combinations(range(len(names)), 2))
    differences = {(i, j): _differences(runs[i], runs[j]) for i, j in pairs}
    by_runs = {pair: paired_t_test(found) for pair, found in differences.items()}
    p_runs = _adjusted({pair: p for pair, p in by_runs.items() if p is not None})
    p_queries = _adjusted({pair: by_queries[pair] for pair in pairs if pair in by_queries})
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


def against_floors(
    runs: Sequence[Mapping[int, float]],
    floors: Sequence[Floor | None],
    by_queries: Mapping[Pair, float],
    reasons: Sequence[str | None],
) -> tuple[AgainstFloor, ...]:
    """Returns for every method whether it is better than its floor, by both tests.

    Args:
        runs: Score by seed, of each of M methods.
        floors: Of each method; None where it is not recorded.
        by_queries: What `paired_bootstrap` returned for methods and floors; empty without scores
            by query.
        reasons: Of each method, why nothing can be claimed although there is a floor; None where
            something can.
    """
    found = [
        None if floor is None else [score - floor.score for _, score in sorted(each.items())]
        for each, floor in zip(runs, floors, strict=True)
    ]
    by_runs = {(i, FLOOR): paired_t_test(each) for i, each in enumerate(found) if each is not None}
    p_runs = _adjusted({pair: p for pair, p in by_runs.items() if p is not None})
    p_queries = _adjusted({pair: p for pair, p in by_queries.items() if pair[1] == FLOOR})
    return tuple(
        _against(
            floor,
            estimate(differences) if differences else None,
            p_runs.get((i, FLOOR)),
            p_queries.get((i, FLOOR)),
            reason,
        )
        for i, (floor, differences, reason) in enumerate(zip(floors, found, reasons, strict=True))
    )


def _against(
    floor: Floor | None,
    difference: Estimate | None,
    p_runs: float | None,
    p_queries: float | None,
    reason: str | None,
) -> AgainstFloor:
    if floor is None:
        reason = NO_FLOOR
    elif p_runs is None:
        reason = ONE_RUN
    better: Better = "cannot be told"
    if difference and reason is None and _different(p_runs, p_queries):
        better = "yes" if difference.mean > 0 else "no"
    return AgainstFloor(
        floor=floor.name if floor else None,
        difference=difference,
        p_runs=p_runs,
        p_queries=p_queries,
        better=better,
        reason=reason,
    )


def _differences(one: Mapping[int, float], other: Mapping[int, float]) -> list[float]:
    return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]


def _adjusted(p_values: Mapping[Pair, float]) -> dict[Pair, float]:
    return dict(zip(p_values, holm(list(p_values.values())), strict=True))


def _different(p_runs: float | None, p_queries: float | None) -> bool:
    return p_runs is not None and max(p_runs, p_queries or 0.0) < ALPHA

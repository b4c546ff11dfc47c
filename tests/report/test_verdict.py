"""The verdict on methods: its rate of false claims, its power, and its rules."""

import math

import numpy as np
import pytest
from scipy import stats
from threadpoolctl import threadpool_limits

from hsearch.report.statistics import FLOOR, holm, paired_bootstrap, paired_t_test
from hsearch.report.values import AgainstFloor, Floor
from hsearch.report.verdict import NO_FLOOR, ONE_RUN, against_floors, contrasts, estimate

QUERIES = 100
RUN_NOISE = 0.01


@pytest.fixture(autouse=True)
def one_thread():
    """Thousands of small products: threads that wait for each other on a busy machine cost more."""
    with threadpool_limits(1):
        yield


def made_scores(
    rng: np.random.Generator, methods: int, runs: int, query_noise: float
) -> np.ndarray:
    """(M, R, Q) of equally good methods: what queries, seeds, networks and both together do.

    Args:
        rng: Of the draws.
        methods: M.
        runs: R.
        query_noise: Standard deviation of how much a method likes a query, in all of its runs.
    """
    difficulty = rng.normal(0.5, 0.3, (1, 1, QUERIES))
    seed = rng.normal(0, 0.02, (1, runs, 1))
    network = rng.normal(0, RUN_NOISE, (methods, runs, 1))
    liking = rng.normal(0, query_noise, (methods, 1, QUERIES))
    rest = rng.normal(0, 0.05, (methods, runs, QUERIES))
    return (difficulty + seed + network + liking + rest).astype(np.float32)


def claims(scores: np.ndarray) -> list[tuple[str, str]]:
    names = [str(number) for number in range(len(scores))]
    runs = [dict(enumerate(map(float, each.mean(axis=1)))) for each in scores]
    found = contrasts(names, runs, paired_bootstrap(scores, resamples=199))
    return [(each.one, each.other) for each in found if each.different]


def equal_noise(runs: int) -> float:
    """The liking of queries whose standard error is that of the runs: the hardest case."""
    return RUN_NOISE * math.sqrt(QUERIES / runs)


@pytest.mark.parametrize(("methods", "runs"), [(2, 10), (4, 10), (2, 4)])
@pytest.mark.parametrize("noise", ["training", "queries", "both"])
def test_methods_that_are_alike_are_rarely_told_apart(methods, runs, noise):
    """In at most 5 % of comparisons, give or take what so few comparisons can show."""
    query_noise = {"training": 0.0, "queries": 0.15, "both": equal_noise(runs)}[noise]
    rng = np.random.default_rng(7)
    trials = 500
    wrong = sum(bool(claims(made_scores(rng, methods, runs, query_noise))) for _ in range(trials))
    slack = 2.6 * math.sqrt(0.05 * 0.95 / trials)  # one in 200 by chance
    assert wrong / trials < 0.05 + slack
    if (methods, runs) == (2, 10):
        # Over 1500 comparisons: 3.7 % (training), 4.8 % (queries) and 4.7 % (both).
        assert wrong / trials > 0.037 - slack, "careful, but not blind"


def test_either_test_alone_would_claim_too_much():
    """Why both are made: on equally good methods the t-test mostly sees what queries like."""
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(100):
        one, other = made_scores(rng, 2, 10, query_noise=0.15).mean(axis=2)
        wrong += holm([paired_t_test(list(one - other)) or 0.0])[0] < 0.05
    assert wrong > 50


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_real_differences_are_found(noise):
    """A method that is better by 5 standard errors is told from each of two others."""
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(100):
        scores = made_scores(rng, 3, 10, noise)
        scores[0] += 5 * math.sqrt(2 * (RUN_NOISE**2 / 10 + noise**2 / QUERIES))
        found += {("0", "1"), ("0", "2")} <= set(claims(scores))
    assert found > 85


def runs_of(*scores: float) -> dict[int, float]:
    return dict(enumerate(scores))


def test_one_run_tells_nothing_apart():
    scores = np.stack([np.full((1, 50), 0.9), np.full((1, 50), 0.1)]).astype(np.float32)
    (found,) = contrasts(["a", "b"], [runs_of(0.9), runs_of(0.1)], paired_bootstrap(scores))
    assert (found.runs, found.p_runs, found.different) == (1, None, False)
    assert found.difference == estimate([0.9 - 0.1])
    assert found.p_queries is not None


def test_without_queries_the_runs_decide():
    (found,) = contrasts(["a", "b"], [runs_of(0.9, 0.91, 0.9), runs_of(0.1, 0.1, 0.1)], {})
    assert found.different
    assert found.p_queries is None


def test_only_runs_of_the_same_seed_are_paired():
    (found,) = contrasts(["a", "b"], [{0: 0.5, 1: 0.6}, {1: 0.4, 2: 0.1}], {})
    assert (found.runs, found.p_runs, found.different) == (1, None, False)
    (none,) = contrasts(["a", "b"], [{0: 0.5}, {1: 0.4}], {})
    assert none.difference is None
    assert not none.different


def test_all_pairs_are_corrected_together():
    runs = [runs_of(0.5, 0.52, 0.54), runs_of(0.4, 0.43, 0.45), runs_of(0.4, 0.41, 0.45)]
    found = contrasts(["a", "b", "c"], runs, {})
    raw = [
        paired_t_test([x - y for x, y in zip(runs[i].values(), runs[j].values(), strict=True)])
        for i, j in [(0, 1), (0, 2), (1, 2)]
    ]
    assert [each.p_runs for each in found] == holm([p or 0.0 for p in raw])


def made_floor(score: float) -> Floor:
    return Floor(name="floor", rows=(), score=score, metrics={"map_at_r": score})


def floored(scores: np.ndarray, floors: np.ndarray) -> list[str]:
    """What is said of methods (M, R, Q) against their floors (M, Q)."""
    runs = [dict(enumerate(map(float, each.mean(axis=1)))) for each in scores]
    known = [made_floor(float(each.mean())) for each in floors]
    by_queries = paired_bootstrap(scores, floors, resamples=199)
    found = against_floors(runs, known, by_queries, [None] * len(runs))
    return [each.better for each in found]


def untouched(
    rng: np.random.Generator, methods: int, runs: int, query_noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """Methods (M, R, Q) that are as good as their floor, and it (M, Q), which has no runs."""
    difficulty = rng.normal(0.5, 0.3, QUERIES)
    network = rng.normal(0, RUN_NOISE, (methods, runs, 1))
    liking = rng.normal(0, query_noise, (methods, 1, QUERIES))
    rest = rng.normal(0, 0.05, (methods, runs, QUERIES))
    floor = difficulty + rng.normal(0, math.hypot(query_noise, 0.05), QUERIES)
    scores = (difficulty + network + liking + rest).astype(np.float32)
    return scores, np.tile(floor, (methods, 1)).astype(np.float32)


@pytest.mark.parametrize(("methods", "noise"), [(1, "training"), (1, "both"), (4, "queries")])
def test_what_training_has_not_changed_is_rarely_told_from_the_floor(methods, noise):
    query_noise = {"training": 0.0, "queries": 0.15, "both": equal_noise(10)}[noise]
    rng = np.random.default_rng(7)
    trials = 300
    wrong = sum(
        set(floored(*untouched(rng, methods, 10, query_noise))) != {"cannot be told"}
        for _ in range(trials)
    )
    assert wrong / trials < 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / trials)


@pytest.mark.parametrize(("gain", "answer"), [(0.06, "yes"), (-0.06, "no")])
def test_what_training_has_done_is_found_in_both_directions(gain, answer):
    scores, floors = untouched(np.random.default_rng(7), 2, 10, 0.03)
    scores[0] += gain
    assert floored(scores, floors) == [answer, "cannot be told"]


def test_the_floor_is_tested_as_one_sample_and_corrected_over_the_methods():
    runs = [runs_of(0.5, 0.52, 0.54), runs_of(0.31, 0.33, 0.29)]
    one, other = against_floors(
        runs, [made_floor(0.3), made_floor(0.28)], {(0, 1): 1e-9, (1, FLOOR): 0.03}, [None, None]
    )
    raw = [
        stats.ttest_1samp(list(each.values()), floor).pvalue
        for each, floor in zip(runs, (0.3, 0.28), strict=True)
    ]
    assert [one.p_runs, other.p_runs] == pytest.approx(holm(raw))
    assert (one.p_queries, other.p_queries) == (None, 0.03), "pairs of methods are another family"
    assert one.difference == estimate([0.5 - 0.3, 0.52 - 0.3, 0.54 - 0.3])
    assert (one.better, other.better) == ("yes", "cannot be told")
    assert (one.reason, other.reason) == (None, None)


def test_what_cannot_be_told_from_the_floor_has_a_reason():
    runs = [runs_of(0.5), runs_of(0.5, 0.5), runs_of(0.5, 0.51)]
    reasons = [None, None, "no scores by query"]
    found = against_floors(runs, [made_floor(0.1), None, made_floor(0.1)], {}, reasons)
    assert {each.better for each in found} == {"cannot be told"}
    assert [each.reason for each in found] == [ONE_RUN, NO_FLOOR, "no scores by query"]
    assert found[1] == AgainstFloor(
        floor=None,
        difference=None,
        p_runs=None,
        p_queries=None,
        better="cannot be told",
        reason=NO_FLOOR,
    )

"""Intervals and tests: known answers, scipy's numbers, and limits."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsearch.report.statistics import (
    group_letters,
    holm,
    paired_bootstrap,
    paired_t_test,
)

VALUES = [0.61, 0.64, 0.60, 0.66, 0.63]
OTHERS = [0.60, 0.61, 0.61, 0.62, 0.60]


def test_the_t_test_is_that_of_scipy():
    differences = list(np.subtract(VALUES, OTHERS))
    assert paired_t_test(differences) == pytest.approx(stats.ttest_rel(VALUES, OTHERS).pvalue)


def test_the_t_test_knows_its_limits():
    assert paired_t_test([0.1]) is None
    assert paired_t_test([0.0, 0.0]) == 1.0
    assert paired_t_test([0.25, 0.25]) == 0.0


def test_holm_corrects_each_step_by_what_is_left():
    """Holm's own rule by hand: 0.01 * 4, 0.02 * 3, max(0.03 * 2, 0.06), 0.5."""
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def drawn(methods=2, runs=1, queries=400, seed=0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(0.5, 0.2, (methods, runs, queries)).astype(np.float32)


def test_the_bootstrap_over_queries_agrees_with_scipy():
    """With one run only queries are drawn, and for many of them that is the paired z-test."""
    scores = drawn()
    scores[0] += 0.02
    expected = stats.ttest_rel(scores[0, 0], scores[1, 0]).pvalue
    assert 0.05 < expected < 0.5
    assert paired_bootstrap(scores)[0, 1] == pytest.approx(expected, abs=0.015)


def test_the_bootstrap_over_runs_has_the_variance_of_the_mean():
    """Where all queries agree, runs alone are drawn: for many runs that is the paired t-test."""
    runs = np.random.default_rng(0).normal(0, 0.01, (2, 60, 1))
    scores = np.tile(runs, (1, 1, 5)).astype(np.float32)
    expected = stats.ttest_rel(runs[0, :, 0], runs[1, :, 0]).pvalue
    assert paired_bootstrap(scores)[0, 1] == pytest.approx(expected, abs=0.015)


def test_the_bootstrap_is_never_certain_and_always_the_same():
    far = np.stack([drawn()[0], drawn()[0] + 0.5])
    assert paired_bootstrap(far, resamples=999) == {(0, 1): 1 / 1000}
    assert paired_bootstrap(drawn(), resamples=99) == paired_bootstrap(drawn(), resamples=99)
    assert paired_bootstrap(np.stack([drawn()[0]] * 2), resamples=99) == {(0, 1): 1.0}


def test_the_bootstrap_uses_the_runs_that_both_have():
    scores = drawn(methods=3, runs=4)
    scores[0, 1], scores[1, 2], scores[2, :] = np.nan, np.nan, np.nan
    scores[2, 1] = 0.5
    found = paired_bootstrap(scores, resamples=99)
    assert set(found) == {(0, 1), (1, 2)}, "0 and 2 share no run"
    assert all(0 < p <= 1 for p in found.values())


def test_the_bootstrap_is_done_in_blocks(monkeypatch):
    whole = paired_bootstrap(drawn(), resamples=99)
    monkeypatch.setattr("hsearch.report.statistics._BLOCK", 4000)
    assert paired_bootstrap(drawn(), resamples=99) == whole


def test_the_bootstrap_of_60_000_queries_needs_little_memory():
    scores = drawn(runs=2, queries=60_000)
    tracemalloc.start()
    try:
        paired_bootstrap(scores, resamples=150)
        assert tracemalloc.get_traced_memory()[1] < 110e6, "drawn at once: 144 MB"
    finally:
        tracemalloc.stop()


def test_letters_by_hand():
    assert group_letters(1, []) == ["a"]
    assert group_letters(3, []) == ["a", "a", "a"]
    assert group_letters(3, [(0, 1), (0, 2), (1, 2)]) == ["a", "b", "c"]
    assert group_letters(3, [(0, 2)]) == ["a", "ab", "b"]
    assert group_letters(4, [(0, 2), (0, 3), (1, 3)]) == ["a", "ab", "bc", "c"]


PAIRS = st.integers(2, 7).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.sets(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
                lambda pair: pair[0] < pair[1]
            )
        ),
    )
)


@given(PAIRS)
def test_two_share_no_letter_if_and_only_if_they_differ(case):
    count, different = case
    letters = group_letters(count, sorted(different))
    assert all(letters)
    for i in range(count):
        for j in range(i + 1, count):
            assert bool(set(letters[i]) & set(letters[j])) == ((i, j) not in different)

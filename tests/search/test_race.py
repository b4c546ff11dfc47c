"""The fold race: every sentence that the issue says about it, as a property."""

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsearch.folds import NUM_FOLDS
from hsearch.search.race import MARGIN, PRIOR_DOF, PRIOR_SHARE, noise_sd, verdict

score = st.floats(0.0, 1.0)
row = st.lists(score, min_size=NUM_FOLDS, max_size=NUM_FOLDS)
table = st.lists(row, min_size=1, max_size=8)
begun = st.lists(score, min_size=1, max_size=NUM_FOLDS - 1)
sigma = st.floats(0.0, 0.5)


@given(scores=begun, incumbent=row, noise=sigma)
def test_a_trial_ends_exactly_when_it_is_behind_by_more_than_the_margin(scores, incumbent, noise):
    said = verdict(scores, incumbent, noise)
    count = len(scores)
    behind = statistics.fmean(incumbent[:count]) - statistics.fmean(scores)
    assert said.behind == pytest.approx(behind, abs=1e-12)
    spread = math.sqrt(2) * noise * math.sqrt(1 / count - 1 / NUM_FOLDS)
    assert said.margin == pytest.approx(MARGIN * spread)
    assert said.lost == (said.behind > said.margin)


@given(scores=begun, incumbent=row, shift=st.lists(st.floats(-1, 1), min_size=4, max_size=4))
def test_the_difficulty_of_folds_plays_no_part(scores, incumbent, shift):
    def harder(values):
        return [value + by for value, by in zip(values, shift, strict=False)]

    before, after = (
        verdict(scores, incumbent, 0.05),
        verdict(harder(scores), harder(incumbent), 0.05),
    )
    assert after.behind == pytest.approx(before.behind, abs=1e-9)
    assert after.lost == before.lost or abs(before.behind - before.margin) < 1e-9


@given(scores=begun, incumbent=row, noise=sigma, gain=st.floats(0, 1))
def test_a_better_trial_never_fares_worse(scores, incumbent, noise, gain):
    better = [value + gain for value in scores]
    assert not verdict(better, incumbent, noise).lost or verdict(scores, incumbent, noise).lost


@given(incumbent=row, noise=sigma, count=st.integers(1, NUM_FOLDS))
def test_the_incumbent_and_its_equals_are_never_ended(incumbent, noise, count):
    assert not verdict(incumbent[:count], incumbent, noise).lost


@given(scores=row, incumbent=row, noise=sigma)
def test_with_all_folds_a_trial_is_complete_and_never_lost(scores, incumbent, noise):
    assert not verdict(scores, incumbent, noise).lost


@given(scores=begun, incumbent=row)
def test_without_a_complete_trial_nobody_loses(scores, incumbent):
    assert not verdict(scores, incumbent, noise_sd([])).lost


@given(incumbent=row, noise=st.floats(0.001, 0.5))
def test_the_margin_shrinks_with_every_fold(incumbent, noise):
    margins = [verdict(incumbent[:n], incumbent, noise).margin for n in range(1, NUM_FOLDS + 1)]
    assert margins == sorted(margins, reverse=True)
    assert margins[-1] == 0


@given(complete=table)
def test_the_noise_is_a_finite_number_that_the_order_of_trials_does_not_change(complete):
    noise = noise_sd(complete)
    assert 0 <= noise < math.inf
    assert noise_sd(list(reversed(complete))) == pytest.approx(noise, abs=1e-9) or _tied(complete)


def _tied(complete: list[list[float]]) -> bool:
    means = [statistics.fmean(scores) for scores in complete]
    return len(set(means)) < len(means)


def test_with_one_complete_trial_the_noise_is_a_share_of_its_own_spread():
    scores = [0.5, 0.6, 0.4, 0.55]
    assert noise_sd([scores]) == pytest.approx(PRIOR_SHARE * statistics.stdev(scores))


def test_equal_scores_mean_no_noise_and_ties_are_not_ended():
    noise = noise_sd([[0.5] * 4] * 3)
    assert noise == 0
    assert not verdict([0.5], [0.5] * 4, noise).lost
    assert verdict([0.49], [0.5] * 4, noise).lost


def drawn(count: int, noise: float, seed: int = 0) -> list[list[float]]:
    """Good trials of the additive model: nearly equal quality, difficult folds."""
    rng = random.Random(seed)
    difficulty = [0.0, 0.1, -0.08, 0.03]
    quality = [0.5 + rng.gauss(0, 0.02) for _ in range(count)]
    return [[q + d + rng.gauss(0, noise) for d in difficulty] for q in quality]


@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_many_complete_trials_reveal_the_noise(seed):
    assert noise_sd(drawn(60, 0.01, seed)) == pytest.approx(0.01, rel=0.35)


def test_a_trial_that_hardly_learned_does_not_raise_the_noise():
    good = drawn(6, 0.003)
    outlier = [0.01, 0.012, 0.011, 0.009]
    assert noise_sd([*good, outlier]) == pytest.approx(noise_sd(good), rel=0.5)


def test_reproductions_add_what_they_know():
    complete = [[0.5, 0.6, 0.4, 0.55]]
    prior = noise_sd(complete)
    groups = [[0.5, 0.502], [0.6, 0.598], [0.4, 0.401, 0.399]]
    squares = sum(sum((s - statistics.fmean(g)) ** 2 for s in g) for g in groups)
    expected = math.sqrt((PRIOR_DOF * prior**2 + squares) / (PRIOR_DOF + 4))
    assert noise_sd(complete, groups) == pytest.approx(expected)
    assert noise_sd(complete, [[0.7]]) == pytest.approx(prior)


def test_the_sentence_names_the_best_trial_the_folds_and_the_margin():
    said = verdict([0.469], [0.5, 0.6, 0.4, 0.5], 0.0065)
    assert said.sentence(7) == (
        f"0.0310 behind the best trial (7) on 1 fold, margin {said.margin:.4f}"
    )
    assert "on 2 folds" in verdict([0.4, 0.4], [0.5, 0.6, 0.4, 0.5], 0.01).sentence(7)

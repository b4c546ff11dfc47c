import numpy as np
import pytest
from scipy import stats

from hsearch.intervals import mean_of


@pytest.mark.parametrize("count", [2, 3, 4, 10, 40])
def test_equals_scipy(count):
    values = np.random.default_rng(count).normal(0.5, 0.1, count)
    found = mean_of(values.tolist())
    low, high = stats.t.interval(0.95, count - 1, loc=values.mean(), scale=stats.sem(values))
    expected = (values.mean(), values.std(ddof=1), low, high)
    assert (found.mean, found.std, found.low, found.high) == pytest.approx(expected, rel=1e-10)
    assert found.count == count


def test_a_single_value_has_no_interval():
    found = mean_of([0.25])
    assert (found.mean, found.std, found.low, found.high) == (0.25, None, None, None)
    assert str(found) == "0.2500"


def test_the_interval_covers_the_mean_in_nineteen_of_twenty_samples():
    rng = np.random.default_rng(0)
    samples = rng.normal(3.0, 2.0, (2000, 4)).tolist()
    covered = sum((m.low or 9) <= 3.0 <= (m.high or 0) for m in map(mean_of, samples))
    assert covered / 2000 == pytest.approx(0.95, abs=0.02)

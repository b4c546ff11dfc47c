"""Means with Student's interval: what several runs tell about a score."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of several values.

    Attributes:
        mean: Of the values.
        std: Their standard deviation with n - 1 in the denominator; None for a single value.
        low: Lower end of the 95 % t-interval of the mean; None for a single value.
        high: Its upper end.
        count: How many values.
    """

    mean: float
    std: float | None
    low: float | None
    high: float | None
    count: int

    def __str__(self) -> str:
        if self.std is None:
            return f"{self.mean:.4f}"
        return f"{self.mean:.4f} +- {self.std:.4f} [{self.low:.4f}, {self.high:.4f}]"


def mean_of(values: Sequence[float]) -> Mean:
    """Returns the mean of at least one value with its 95 % t-interval.

    The interval is that of a normal population of which the values are a sample: mean +- t s /
    sqrt(n), with t the quantile of Student's distribution with n - 1 degrees of freedom.
    """
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Mean(mean, None, None, None, len(values))
    std = statistics.stdev(values)
    half = _quantile(len(values) - 1) * std / math.sqrt(len(values))
    return Mean(mean, std, mean - half, mean + half, len(values))


def _quantile(degrees: int) -> float:
    from scipy.special import stdtrit  # a tenth of the time that importing scipy.stats takes

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))

"""Values of a knob as places on an axis: linear, logarithmic, or one place per choice."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from hsearch.search.record import StudyRecord
from hsearch.spec import KnobValue
from hsearch.words import typed

_FEWEST_TICKS = 3
_LEAST_GAP = 0.15  # of the axis, between two texts
_ROUND = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])


@dataclass(frozen=True)
class KnobAxis:
    """Where values of one knob lie.

    Attributes:
        name: Of the knob.
        choices: All values of a knob without order, else empty.
        low: Least value of a knob of numbers.
        high: Largest value.
        log: Whether its axis is logarithmic.
    """

    name: str
    choices: tuple[KnobValue, ...] = ()
    low: float = 0.0
    high: float = 1.0
    log: bool = False

    def places(self, values: Sequence[KnobValue]) -> NDArray[np.float64]:
        """Returns where the values lie, in 0..1."""
        if self.choices:
            numbers = np.array([self.choices.index(value) for value in values], dtype=np.float64)
            return (numbers + 0.5) / len(self.choices)
        ends = self._scaled(np.array([self.low, self.high]))
        span = ends[1] - ends[0]
        if not span:
            return np.full(len(values), 0.5)
        places: NDArray[np.float64] = (self._scaled(np.array(values, dtype=float)) - ends[0]) / span
        return places

    def ticks(self) -> list[tuple[float, str]]:
        """Returns places and texts for the values that are written at the axis."""
        if self.choices:
            places = self.places(self.choices)
            return [(float(p), typed(c)) for p, c in zip(places, self.choices, strict=True)]
        values = self.tick_values()
        places = self.places(values)
        return [(float(p), f"{v:.3g}") for p, v in zip(places, values, strict=True)]

    def tick_values(self) -> list[float]:
        """Returns round numbers on an axis of numbers."""
        if self.low == self.high:
            return [self.low]
        if not self.log:
            return _inside(_ROUND.tick_values(self.low, self.high), self.low, self.high)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for leads in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
            numbers = [lead * 10.0**power for power in range(first, last + 1) for lead in leads]
            if len(found := _inside(numbers, self.low, self.high)) >= _FEWEST_TICKS:
                break
        return self._apart(found)

    def _apart(self, values: list[float]) -> list[float]:
        """Those of ascending values whose texts do not touch."""
        kept: list[float] = []
        for value, place in zip(values, self.places(values), strict=True):
            if not kept or place - self.places([kept[-1]])[0] >= _LEAST_GAP:
                kept.append(value)
        return kept

    def _scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log(values) if self.log else values


def knob_axes(record: StudyRecord) -> list[KnobAxis]:
    """Returns an axis for every knob that any trial has, over the values that were tried."""
    axes = []
    for name in record.spec.space:
        values = [trial.knobs[name] for trial in record.trials if name in trial.knobs]
        if any(isinstance(value, str | bool) for value in values):
            axes.append(KnobAxis(name, tuple(sorted(set(values), key=str))))
        elif values:
            numbers = [float(value) for value in values]
            axes.append(KnobAxis(name, (), min(numbers), max(numbers), record.spec.is_log(name)))
    return axes


def _inside(values: Iterable[float], low: float, high: float) -> list[float]:
    """The values between the ends, which rounding may move a little."""
    room = 1e-6 * (high - low)
    return [float(value) for value in values if low - room <= value <= high + room]

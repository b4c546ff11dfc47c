"""A cluster whose groups and clock are virtual, and whose driver is the real one.

The driver is one server: whatever it does takes, in virtual time, the seconds that the real call
took. Groups, board and light trials answer at once, after the latency that was measured.
"""

import heapq
import itertools
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hsearch.results import EpochRecord
from scaling.measured import Stopwatch, TuneCost
from scaling.recorded import EPOCHS, Recorded

IDLE_SECONDS = 1e-3  # a round of Tune's loop that takes less had nothing to do


class Driver(Protocol):
    """What the simulation asks of a way to drive a search; all of it is timed."""

    def suggest(self, follower: str) -> bool | None:
        """Hangs out jobs; whether it needs a new light trial, None once there is nothing more."""

    def report(self, follower: str, outcomes: list[dict[str, Any]]) -> bool:
        """Takes outcomes; returns whether the light trial goes on."""


@dataclass
class Seen:
    """What happened in a simulation, in virtual seconds."""

    groups: int
    first: list[float] = field(default_factory=list)  # when each group began
    spans: list[tuple[float, float]] = field(default_factory=list)  # of every fold
    waits: list[tuple[float, float]] = field(default_factory=list)  # when, and how long
    busy: list[tuple[float, float]] = field(default_factory=list)  # driver: when, seconds
    last_proposal: float = 0.0
    to_best: float | None = None

    @property
    def steady(self) -> tuple[float, float]:
        """From when every group has had a fold until no trial was left to propose."""
        begin = max(self.first)
        return begin, max(self.last_proposal, begin + 1.0)

    @property
    def utilisation(self) -> float:
        """Share of the groups' time that they trained in, in the steady part."""
        begin, end = self.steady
        trained = sum(max(0.0, min(b, end) - max(a, begin)) for a, b in self.spans)
        return trained / (self.groups * (end - begin))

    @property
    def end(self) -> float:
        return max(b for _, b in self.spans)

    @property
    def driver_share(self) -> float:
        """Share of its time in which the driver worked, in the steady part."""
        begin, end = self.steady
        return sum(s for at, s in self.busy if begin <= at < end) / (end - begin)

    @property
    def wait_95(self) -> float:
        """Seconds that a group waits for its next job at most, in 95 % of cases."""
        begin, end = self.steady
        waits = [wait for at, wait in self.waits if begin <= at < end]
        return statistics.quantiles(waits, n=20)[-1] if len(waits) > 1 else 0.0


class Cluster:
    """Virtual groups, board and light trials around a real driver.

    Args:
        groups: How many.
        recorded: What trainings give, and how long they take.
        cost: Of Tune.
        stopwatch: Times the driver.
    """

    def __init__(
        self, groups: int, recorded: Recorded, cost: TuneCost, stopwatch: Stopwatch
    ) -> None:
        self.recorded, self.cost, self.stopwatch = recorded, cost, stopwatch
        self.seen = Seen(groups)
        self.driver: Driver
        self.after_call: Callable[[float], float] = lambda now: 0.0
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = itertools.count()
        self._waiting: deque[dict[str, Any]] = deque()
        self._idle: deque[tuple[int, float | None]] = deque((n, None) for n in range(groups))
        self._boxes: dict[str, list[dict[str, Any]]] = {}
        self._reporting: set[str] = set()
        self._reports: deque[tuple[str, list[dict[str, Any]]]] = deque()
        self._pending: str | None = None
        self._names = (f"follower-{number}" for number in itertools.count())
        self._driving = self._finished = False
        self._base = self._began = 0.0

    def run(self) -> Seen:
        """Runs until nothing happens any more."""
        self.at(0.0, self._step)
        while self._events:
            now, _, happen = heapq.heappop(self._events)
            happen(now)
        return self.seen

    def now(self) -> float:
        """Returns the virtual time inside a call of the driver."""
        return self._base + max(0.0, self.stopwatch.now() - self._began)

    def hang(self, ticket: dict[str, Any], later: float = 0.0) -> None:
        """Hangs out a job: `follower`, `key`, `seconds`, and `make`, which gives the outcome."""
        self.at(self.now() + later, lambda now: self._hung(ticket, now))

    def withdraw(self, number: int) -> None:
        """Takes the jobs of a trial down."""
        self.at(self.now(), lambda now: self._withdrawn(number))

    def at(self, moment: float, happen: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._count), happen))

    def _hung(self, ticket: dict[str, Any], now: float) -> None:
        if self._idle:
            self._start(*self._idle.popleft(), ticket, now)
        else:
            self._waiting.append(ticket)

    def _withdrawn(self, number: int) -> None:
        self._waiting = deque(t for t in self._waiting if t["key"][0] != number)

    def _start(self, group: int, since: float | None, ticket: dict[str, Any], now: float) -> None:
        if since is None:
            self.seen.first.append(now)
        else:
            self.seen.waits.append((now, now - since))
        end = now + ticket["seconds"]
        self.seen.spans.append((now, end))
        self.at(end, lambda at: self._finish(group, ticket, at))

    def _finish(self, group: int, ticket: dict[str, Any], now: float) -> None:
        if self._waiting:
            self._start(group, now, self._waiting.popleft(), now)
        else:
            self._idle.append((group, now))
        follower = ticket["follower"]
        self._boxes.setdefault(follower, []).append(ticket["make"]())
        self._tell(follower, now)

    def _tell(self, follower: str, now: float) -> None:
        """A light trial reports what it has, unless it waits for the answer to its last report."""
        if follower != self._pending and follower not in self._reporting and self._boxes[follower]:
            self._reporting.add(follower)
            outcomes, self._boxes[follower] = self._boxes[follower], []
            self.at(now + self.cost.latency, lambda at: self._arrive(follower, outcomes, at))

    def _arrive(self, follower: str, outcomes: list[dict[str, Any]], now: float) -> None:
        self._reports.append((follower, outcomes))
        self._wake(now)

    def _wake(self, now: float) -> None:
        if not self._driving:
            self._step(now)

    def _step(self, now: float) -> None:
        """One round of Tune's loop: ask for trials, then handle one report."""
        self._driving = True
        spent = self._suggest(now) if self._pending is None and not self._finished else 0.0
        if self._reports:
            spent += self._report(*self._reports.popleft(), now + spent)
        spent += self.after_call(now + spent)
        self.seen.busy.append((now, spent))
        if spent > IDLE_SECONDS or self._reports:
            self.at(now + spent, self._step)
        else:
            self._driving = False

    def _report(self, follower: str, outcomes: list[dict[str, Any]], now: float) -> float:
        goes_on, seconds = self._call(now, lambda: self.driver.report(follower, outcomes))
        seconds += self.cost.report + len(outcomes) * EPOCHS * self._epoch_seconds()
        self._reporting.discard(follower)
        if goes_on:
            self.at(now + seconds, lambda at: self._tell_again(follower, at))
        return float(seconds)

    def _tell_again(self, follower: str, now: float) -> None:
        if follower in self._boxes:
            self._tell(follower, now)

    def _suggest(self, now: float) -> float:
        name = next(self._names)
        new, seconds = self._call(now, lambda: self.driver.suggest(name))
        if new is None:
            self._finished = True
        elif new:
            self._pending = name
            self._boxes.setdefault(name, [])
            self.at(now + seconds + self.cost.start, self._follower_stands)
        return seconds

    def _follower_stands(self, now: float) -> None:
        name, self._pending = self._pending, None
        assert name is not None
        self._tell(name, now)
        self._wake(now)

    def _call(self, now: float, function: Callable[[], Any]) -> tuple[Any, float]:
        self._base, self._began = now, self.stopwatch.now()
        return self.stopwatch.time(function)

    def _epoch_seconds(self) -> float:
        """What the driver spends on the news of one epoch; measured once."""
        if not hasattr(self, "_epoch"):
            record = EpochRecord(
                epoch=1,
                loss=1.0,
                seconds=1.0,
                images_per_second=1.0,
                lr={},
                validation=dict.fromkeys(map(str, range(40)), 0.5),
            ).model_dump_json()
            _, seconds = self.stopwatch.time(
                lambda: [EpochRecord.model_validate_json(record) for _ in range(100)]
            )
            self._epoch = seconds / 100
        return self._epoch

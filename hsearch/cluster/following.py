"""Which light trial of Tune's follows which trials of the study.

A light trial is a process of 140 MB on the head node, so that there are few of them: each follows
one trial of a small search, and its share of the trials of a large one.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hsearch.cluster.desk import Desk
from hsearch.folds import NUM_FOLDS
from hsearch.search.record import TrialRecord

if TYPE_CHECKING:
    from ray.actor import ActorHandle

MAX_FOLLOWERS = 16


@dataclass
class _Followed:
    """A running trial: who follows it, and its folds that do not hang on the board yet."""

    trial: TrialRecord
    follower: str
    left: list[int]


class Following:
    """Hangs the folds of running trials on the board and enters their outcomes at the desk.

    Args:
        desk: Decides which trials go on.
        board: The actor.
    """

    def __init__(self, desk: Desk, board: "ActorHandle") -> None:
        self._desk, self._board = desk, board
        self._followed: dict[int, _Followed] = {}
        self._loads: dict[str, int] = {}
        self._awaited: set[tuple[int, int]] = set()

    def with_room(self) -> str | None:
        """Returns the follower that shall take the next trial; None for a new one."""
        share = math.ceil(self._desk.concurrency() / MAX_FOLLOWERS)
        least = min(self._loads, key=self._loads.__getitem__, default=None)
        if least is None or (len(self._loads) < MAX_FOLLOWERS and self._loads[least] >= share):
            return None
        return least

    def has_work(self, follower: str) -> bool:
        """Whether a follower has a trial to follow."""
        return follower in self._loads

    def begin(self, follower: str, trial: TrialRecord) -> None:
        """Hangs the first folds of a trial on the board."""
        left = [fold for fold in range(NUM_FOLDS) if fold not in trial.folds]
        self._followed[trial.number] = _Followed(trial, follower, left)
        self._loads[follower] = self._loads.get(follower, 0) + 1
        for _ in range(self._desk.folds_ahead):
            self._hang_next(trial.number)

    def enter(self, outcome: dict[str, Any]) -> None:
        """Enters the outcome of a fold and does what follows; one that comes again is ignored."""
        number, fold = outcome["key"]
        if (number, fold) not in self._awaited:
            return
        self._awaited.remove((number, fold))
        if self._desk.enter(number, outcome):
            self._end(number)
        else:
            self._hang_next(number)

    def _hang_next(self, number: int) -> None:
        followed = self._followed[number]
        if followed.left:
            fold = followed.left.pop(0)
            job = followed.trial.job.model_copy(update={"fold": fold}).model_dump_json()
            path = str(self._desk.path(number, fold))
            self._awaited.add((number, fold))
            self._board.hang.remote(followed.follower, (number, fold), job, path)

    def _end(self, number: int) -> None:
        follower = self._followed.pop(number).follower
        self._awaited -= {(number, fold) for fold in range(NUM_FOLDS)}
        self._loads[follower] -= 1
        if not self._loads[follower]:
            del self._loads[follower]
        self._board.withdraw.remote(number)

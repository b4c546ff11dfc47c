"""The board: where trials hang out jobs and worker groups take them down, as a Ray actor.

A job is held by one group at a time. A group that starts anew gives back the job that it held; so
does one that is gone for good. A job whose worker process died again and again is given up; one
that was lost together with its machine is not counted against it. A group that is asked to leave
gives its job back after the epoch that it is in. What a machine could not do, such as read its
disk, is tried on another one.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import ray

from hsearch.cluster.session import HEAD

MAX_CRASHES = 3
LEAVE = "leave"

Event = dict[str, Any]
Kind = Literal["train", "test", "floor"]
"""Train a fold; test the networks of a run; test the backbone as it comes."""


@dataclass
class Ticket:
    """A job on the board.

    Attributes:
        key: Trial, or run, and fold.
        job: The FoldJob as JSON.
        path: Run folder of the job; for a test, the folder that holds those of its folds.
        kind: What to do with it.
        outcome: Resolved with `{"result": JSON}` or `{"failed": reason}`.
        crashes: How often a worker process died while training it.
        withdrawn: Whether its trial has ended, so that nobody wants the outcome any more.
    """

    key: tuple[int, int]
    job: str
    path: str
    kind: Kind
    outcome: "asyncio.Future[Event]"
    crashes: int = 0
    withdrawn: bool = False


@dataclass
class Group:
    """A worker group as the board knows it.

    Attributes:
        nodes: Where its ranks live.
        ticket: What it is training.
        leaving: Whether it is to go home after the epoch that it is in.
    """

    nodes: set[str] = field(default_factory=set)
    ticket: Ticket | None = None
    leaving: bool = False


class Board:
    """The queue of jobs and who works on them; all methods run on one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[Ticket] = deque()
        self._groups: dict[int, Group] = {}
        self._events: list[Event] = []
        self._outcomes: defaultdict[str, list[Event]] = defaultdict(list)
        self._changed = asyncio.Condition()
        self._closed = False

    async def train(self, key: tuple[int, int], job: str, path: str, kind: Kind = "train") -> Event:
        """Hangs out a job and returns its outcome; one that hangs there already is not doubled."""
        ticket = await self._hang(key, job, path, kind)
        return await asyncio.shield(ticket.outcome)

    async def hang(self, follower: str, key: tuple[int, int], job: str, path: str) -> None:
        """Hangs out a fold whose outcome a follower asks for; see `outcomes`."""
        ticket = await self._hang(key, job, path, "train")
        ticket.outcome.add_done_callback(lambda _: self._keep(follower, ticket))

    async def outcomes(self, follower: str, reported: list[tuple[int, int]]) -> list[Event]:
        """Returns the outcomes for a follower, at least one.

        Args:
            follower: Who asks.
            reported: Keys of those that it need not be given again.
        """
        outcomes = self._outcomes[follower]
        outcomes[:] = [outcome for outcome in outcomes if outcome["key"] not in reported]
        async with self._changed:
            await self._changed.wait_for(lambda: bool(outcomes))
        return list(outcomes)

    async def withdraw(self, number: int) -> None:
        """Takes the jobs of a trial down; one that is being trained will not be hung out again."""
        for ticket in self._tickets():
            ticket.withdrawn |= ticket.key[0] == number
        self._waiting = deque(t for t in self._waiting if not t.withdrawn)
        for outcomes in self._outcomes.values():
            outcomes[:] = [outcome for outcome in outcomes if outcome["key"][0] != number]

    async def enter(self, group: int, nodes: list[str]) -> None:
        """A group has started, for the first time or anew after a worker was lost."""
        held = self._groups.get(group)
        self._groups[group] = Group(nodes=set(nodes))
        if held is not None:
            self._give_back(held)
        self._tell_groups()
        await self._wake()

    async def leave(self, group: int) -> None:
        """A group is gone for good; what it held is trained by another."""
        held = self._groups.pop(group, None)
        if held is not None:
            self._give_back(held)
            self._tell_groups()
        await self._wake()

    async def look(self) -> None:
        """Takes back the jobs of groups that have lost a machine, before Ray notices it all."""
        alive = _alive_nodes()
        for number in [n for n, group in self._groups.items() if not group.nodes <= alive]:
            await self.leave(number)

    async def take(self, group: int, patience: float) -> Event | str | None:
        """Returns the next job for a group, LEAVE at the end, or None after `patience` seconds."""
        asking = self._groups.get(group)
        if asking is None:
            return LEAVE  # it is taken for dead
        async with self._changed:
            if not await self._wait(patience, lambda: self._sends_home(asking) or self._waiting):
                return None
            if self._sends_home(asking):
                return LEAVE
            if self._groups.get(group) is not asking:
                return None  # who asked has died meanwhile
            ticket = asking.ticket = self._waiting.popleft()
            return {
                "key": ticket.key,
                "job": ticket.job,
                "path": ticket.path,
                "kind": ticket.kind,
            }

    async def must_pause(self, group: int) -> bool:
        """Whether a group is to give its job back before the next epoch, or has lost it already."""
        asking = self._groups.get(group)
        return asking is None or asking.leaving

    async def empty_nodes(self, nodes: list[str]) -> None:
        """Asks the groups that have a rank on one of these nodes to leave."""
        leaving = [g for g in self._groups.values() if not g.leaving and g.nodes & set(nodes)]
        for group in leaving:
            group.leaving = True
        if leaving:
            self._tell_groups()
            await self._wake()

    async def epoch(self, group: int, key: tuple[int, int], record: str) -> None:
        """A group has finished an epoch of its job."""
        if self._holds(group, key):
            self._tell({"event": "epoch", "key": key, "record": record})

    async def features(self, done: int, total: int) -> None:
        """Groups have computed so many views together."""
        self._tell({"event": "features", "done": done, "total": total})

    async def timed(self, times: dict[str, Any]) -> None:
        """A group knows how long its training will take."""
        self._tell({"event": "timed", **times})

    async def floor(self, score: float) -> None:
        """A group knows what needs no training scores, as the mean over the folds."""
        self._tell({"event": "floor", "score": score})

    async def finish(self, group: int, key: tuple[int, int], outcome: Event) -> None:
        """A group is done with its job; the word of a group that no longer holds it is ignored."""
        ticket = self._holds(group, key)
        if ticket is None:
            return
        self._groups[group].ticket = None
        if "paused" in outcome:
            self._hang_out_again(ticket, "paused")
        elif "broken" in outcome and self._may_elsewhere(group, ticket):
            ticket.crashes += 1
            self._groups[group].leaving = True
            self._tell({"event": "warning", "sentence": outcome["broken"]})
            self._hang_out_again(ticket, "elsewhere")
        else:
            ticket.outcome.set_result(outcome)
        await self._wake()

    async def events(self, patience: float) -> list[Event]:
        """Returns what has happened since the last call, or nothing after `patience` seconds."""
        async with self._changed:
            await self._wait(patience, lambda: bool(self._events))
            events, self._events = self._events, []
            return events

    async def warn(self, sentence: str, fatal: bool = False) -> None:
        """A machine has something to say that a person should know, or that ends the work."""
        self._tell({"event": "trouble" if fatal else "warning", "sentence": sentence})

    async def close(self, *, after_epoch: bool = False) -> None:
        """Sends every group home after the job that it holds, or after its running epoch."""
        self._closed = True
        for group in self._groups.values():
            group.leaving |= after_epoch
        await self._wake()

    async def _hang(self, key: tuple[int, int], job: str, path: str, kind: Kind) -> Ticket:
        ticket = self._find(tuple(key))
        if ticket is None:
            future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
            ticket = Ticket((key[0], key[1]), job, path, kind, future)
            self._waiting.append(ticket)
            await self._wake()
        return ticket

    def _keep(self, follower: str, ticket: Ticket) -> None:
        if not ticket.withdrawn:
            self._outcomes[follower].append({"key": ticket.key, **ticket.outcome.result()})
            self._waker = asyncio.ensure_future(self._wake())

    def _find(self, key: tuple[int, ...]) -> Ticket | None:
        wanted = (ticket for ticket in self._tickets() if not ticket.withdrawn)
        return next((ticket for ticket in wanted if ticket.key == key), None)

    def _tickets(self) -> list[Ticket]:
        held = [group.ticket for group in self._groups.values() if group.ticket]
        return [*self._waiting, *held]

    def _holds(self, group: int, key: tuple[int, int]) -> Ticket | None:
        held = self._groups.get(group)
        ticket = held.ticket if held else None
        return ticket if ticket and ticket.key == tuple(key) else None

    def _give_back(self, group: Group) -> None:
        """Hangs the job of a lost group out again, first in the row, unless it kills workers."""
        ticket = group.ticket
        if ticket is None or ticket.withdrawn:
            return
        ticket.crashes += group.nodes <= _alive_nodes()
        if ticket.crashes >= MAX_CRASHES:
            doing = f"training fold {ticket.key[1]}" if ticket.kind == "train" else "testing"
            ticket.outcome.set_result(
                {
                    "failed": f"The worker process died {ticket.crashes} times while {doing}; was "
                    "it out of memory?"
                }
            )
        else:
            self._hang_out_again(ticket, "retry")

    def _may_elsewhere(self, group: int, ticket: Ticket) -> bool:
        """Whether what a machine could not do is worth a try on another one."""
        nodes = self._groups[group].nodes
        others = any(not other.nodes <= nodes for other in self._groups.values())
        return others and ticket.crashes + 1 < MAX_CRASHES

    def _hang_out_again(self, ticket: Ticket, why: str) -> None:
        if not ticket.withdrawn:
            self._waiting.appendleft(ticket)
            self._tell({"event": why, "key": ticket.key, "kind": ticket.kind})

    def _sends_home(self, group: Group) -> bool:
        return self._closed or group.leaving

    def _tell_groups(self) -> None:
        leaving = [number for number, group in self._groups.items() if group.leaving]
        self._tell({"event": "group", "alive": len(self._groups), "leaving": leaving})

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        self._waker = asyncio.ensure_future(self._wake())

    async def _wait(self, patience: float, predicate: Callable[[], object]) -> bool:
        """Waits, holding the condition, until the predicate is true; False after `patience` s."""
        try:
            async with asyncio.timeout(patience):
                return bool(await self._changed.wait_for(predicate))
        except TimeoutError:
            return False

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def light() -> dict[str, float]:
    """Returns what the board and the light trials of Tune take, so that they live with the driver.

    It is a thousandth of a resource that only the driver's node has. Tune refuses trials that take
    nothing, and CPUs belong to the worker groups.
    """
    here = ray.get_runtime_context().get_node_id()
    own = next(node["Resources"] for node in ray.nodes() if node["NodeID"] == here)
    # Several nodes may share an address, as in tests; the head has a name besides.
    names = sorted(name for name in own if name.startswith("node:"))
    return {HEAD if HEAD in names else names[0]: 0.001}


def _alive_nodes() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}

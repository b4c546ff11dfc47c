"""The first plan of a search on a cluster whose machines are still to come."""

import threading
from pathlib import Path

import pytest

import hsearch.cluster.options as options_module
from hsearch.cluster.options import ClusterOptions, first_plan
from hsearch.cluster.preflight import Node
from hsearch.cluster.session import Session
from hsearch.errors import ConfigError

ON_A_CLUSTER = ClusterOptions(address="auto", workers_per_fold=2, groups=3, gpus_per_worker=1.0)


class Growing(Session):
    """A cluster that has one more node of a GPU at every look, up to a number."""

    def __init__(self, most: int) -> None:
        super().__init__(Path("nowhere"))
        self.most, self.looks = most, 0
        self.asked: list[tuple[int, dict[str, float]]] = []

    def nodes(self) -> list[Node]:
        self.looks += 1
        return [Node(cpus=4, gpus=1, id=str(n)) for n in range(min(self.looks, self.most))]

    def ask_for(self, ranks: int, resources: dict[str, float]) -> None:
        self.asked.append((ranks, resources))


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(options_module, "LOOK_SECONDS", 0.01)


def test_machines_are_asked_for_once_and_waited_for():
    session = Growing(2)
    said: list[str] = []
    plan = first_plan(ON_A_CLUSTER, session, said.append, threading.Event(), threading.Event())
    assert plan is not None
    assert plan.groups == 1
    assert session.asked == [(6, {"CPU": 1, "GPU": 1.0})]
    assert len(said) == 1


@pytest.mark.parametrize("which", ["lost", "stopping"])
def test_who_is_stopped_or_has_lost_the_study_waits_no_longer(which):
    events = {"lost": threading.Event(), "stopping": threading.Event()}
    session = Growing(1)
    threading.Timer(0.1, events[which].set).start()
    assert first_plan(ON_A_CLUSTER, session, lambda _: None, **events) is None
    assert session.looks > 1


def test_in_the_end_it_is_said_what_is_missing(monkeypatch):
    monkeypatch.setattr(options_module, "MACHINE_SECONDS", 0.05)
    with pytest.raises(ConfigError, match="A fold needs 2 workers of 4 CPUs and 1 GPU at once"):
        first_plan(ON_A_CLUSTER, Growing(1), lambda _: None, threading.Event(), threading.Event())

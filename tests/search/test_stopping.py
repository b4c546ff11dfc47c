"""Stopping drivers: which are found, and what is learnt of them."""

import threading
import time
from contextlib import closing

import pytest

import hsearch.search.lease as lease_module
import hsearch.search.stopping as stopping
from hsearch.errors import ConfigError
from hsearch.search.driver import Driver
from hsearch.search.lease import Lease
from hsearch.search.reproduction import Reproduction
from hsearch.search.stopping import driven
from tests.search.made_reproduction import made_plan, made_spec_on
from tests.search.made_study import search


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lease_module, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(lease_module, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lease_module, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(stopping, "LOOK_SECONDS", 0.02)


def test_search_and_reproductions_of_a_study_are_found(opened, storage, toy_store):
    study = opened(made_spec_on(toy_store))
    record = search(study, 2)
    opened(made_spec_on(toy_store), name="other")
    with driven("s", storage) as found:
        assert found == []
    with closing(Reproduction.open(made_plan(record), storage)) as reproduction:
        with Lease(study), Lease(reproduction), driven("s", storage) as found:
            names = [(stop.study.name, stop.protocol) for stop in found]
        assert names == [("s", None), ("s/reproduce-cross-validated", "cross-validated")]
    with driven("other", storage) as found:
        assert found == []
    with pytest.raises(ConfigError, match="There is no study 't'"), driven("t", storage):
        pass


def test_a_driver_that_is_asked_lets_go(opened, storage):
    study = opened()

    def drive() -> None:
        with Lease(study) as lease:
            held.set()
            lease.stopping.wait(10)

    held = threading.Event()
    driver = threading.Thread(target=drive)
    driver.start()
    assert held.wait(5)
    with driven("s", storage) as found:
        (stop,) = found
        stop.ask()
        assert stop.wait() == "stopped"
    driver.join()


def test_a_dead_driver_and_one_that_does_not_listen_are_told_apart(opened, storage, monkeypatch):
    study = opened()
    Lease(study)._write()
    with driven("s", storage) as found:
        (stop,) = found
        monkeypatch.setattr(stopping, "GIVE_UP_SECONDS", 0.1)
        assert stop.wait() == "busy"  # this very process
        elsewhere = {"host": "elsewhere", "heartbeat": time.time() - 20}
        moved = Driver.from_dict(study.attribute("driver")).model_copy(update=elsewhere)
        study.set_attribute("driver", moved.to_dict())
        monkeypatch.setattr(stopping, "GIVE_UP_SECONDS", 10)
        assert stop.wait() == "dead"


def test_a_study_that_was_removed_is_no_longer_driven(opened, storage):
    study = opened()
    Lease(study)._write()
    with driven("s", storage) as found:
        study.set_attribute("driver", None)
        study.remove_if_unused()
        assert found[0].wait() == "stopped"

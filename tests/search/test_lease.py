"""One driver per study: who is refused, who succeeds whom, and how a driver learns that it lost."""

import subprocess
import sys
import threading
import time

import pytest

import hsearch.search.lease as lease_module
from hsearch.errors import ConfigError, HsearchError
from hsearch.search.driver import Driver, process_start
from hsearch.search.lease import Lease, Pulse, ask_to_stop, driver_lives, stop_request


class Shelf:
    """A study as far as a lease knows one; two leases may look at it, as at one storage."""

    def __init__(self) -> None:
        self.name = "s"
        self.values: dict[str, object] = {}
        self.taken = 0
        self.broken = False

    def attribute(self, key: str) -> object:
        if self.broken:
            raise HsearchError("The storage no longer answers.")
        return self.values.get(key)

    def set_attribute(self, key: str, value: object) -> None:
        if self.broken:
            raise HsearchError("The storage no longer answers.")
        self.values[key] = value

    def take_over(self) -> None:
        self.taken += 1

    def driver(self) -> Driver:
        return Driver.from_dict(self.values["driver"])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The same protocol, fifty times faster."""
    monkeypatch.setattr(lease_module, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr(lease_module, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lease_module, "SETTLE_SECONDS", 0.05)


@pytest.fixture
def study() -> Shelf:
    return Shelf()


def changed(study: Shelf, **update: object) -> None:
    study.values["driver"] = study.driver().model_copy(update=update).to_dict()


def test_a_free_study_is_taken_and_given_back(study):
    with Lease(study) as lease:
        assert driver_lives(study.values["driver"])
        assert study.taken == 1
        assert not lease.lost.is_set()
    assert study.values["driver"] is None
    assert all(thread.name != "lease" for thread in threading.enumerate())


def test_a_second_driver_is_refused_by_the_name_of_the_first(study):
    with Lease(study):
        first = study.driver()
        with pytest.raises(ConfigError, match=f"process {first.pid} on {first.host} since 20"):
            Lease(study).acquire()
        assert study.driver().token == first.token
        assert study.taken == 1


def test_a_killed_driver_of_this_machine_is_succeeded_at_once(study, monkeypatch):
    monkeypatch.setattr(lease_module, "LEASE_SECONDS", 60)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        Lease(study)._write()
        start = process_start(process.pid)
        changed(study, pid=process.pid, process_start=start)
        with pytest.raises(ConfigError, match=f"process {process.pid}"):
            Lease(study).acquire()
        process.kill()
        while process_start(process.pid):
            time.sleep(0.01)
        before = time.monotonic()
        with Lease(study):
            assert time.monotonic() - before < 30


def test_another_process_with_the_same_number_is_not_the_driver(study):
    Lease(study)._write()
    changed(study, process_start="1")
    assert not driver_lives(study.values["driver"])
    with Lease(study):
        pass


@pytest.mark.parametrize("skew", [-40.0, 0.0, 40.0])
def test_a_driver_elsewhere_that_beats_is_refused_whatever_its_clock(study, skew):
    Lease(study)._write()
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.05):
            changed(study, heartbeat=time.time() + skew)

    changed(study, host="elsewhere", heartbeat=time.time() + skew)
    other = threading.Thread(target=beat)
    other.start()
    with pytest.raises(ConfigError, match="on elsewhere"):
        Lease(study).acquire()
    ended.set()
    other.join()


def test_a_silent_driver_elsewhere_is_watched_and_then_succeeded(study):
    Lease(study)._write()
    changed(study, host="elsewhere")
    told: list[str] = []
    with Lease(study, told.append):
        assert study.driver().host != "elsewhere"
    assert len(told) == 1
    assert "elsewhere has driven this study" in told[0]


def test_a_driver_elsewhere_that_is_long_silent_is_not_watched(study):
    Lease(study)._write()
    changed(study, host="elsewhere", heartbeat=time.time() - 3600)
    told: list[str] = []
    with Lease(study, told.append):
        pass
    assert told == []


def test_the_same_pid_in_another_container_is_elsewhere(study):
    Lease(study)._write()
    changed(study, namespace="pid:[1]", heartbeat=time.time() - 3600)
    before = study.attribute("driver")["token"]
    with Lease(study):
        assert study.attribute("driver")["token"] != before


def test_of_two_at_once_only_one_goes_on(study):
    outcomes: list[str] = []
    ready, done = threading.Barrier(2), threading.Barrier(2)

    def drive() -> None:
        lease = Lease(study)
        lease._outlives = lambda other: False  # type: ignore[method-assign] # both saw it free
        ready.wait()
        try:
            lease.acquire()
            outcomes.append("goes on")
        except ConfigError as error:
            outcomes.append(str(error))
        done.wait()
        lease.release()

    drivers = [threading.Thread(target=drive) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert sorted(text == "goes on" for text in outcomes) == [False, True]
    assert study.taken == 1


def test_a_driver_whose_study_was_taken_learns_it_and_leaves_it_alone(study):
    with Lease(study) as lease:
        first = study.driver().heartbeat
        while study.driver().heartbeat == first:
            time.sleep(0.01)
        changed(study, token="of another")
        assert lease.lost.wait(5)
    assert study.driver().token == "of another"


def test_a_storage_that_does_not_answer_for_a_while_loses_nothing(study):
    with Lease(study) as lease:
        study.broken = True
        time.sleep(0.2)
        study.broken = False
        first = study.driver().heartbeat
        while study.driver().heartbeat == first:
            time.sleep(0.01)
        assert not lease.lost.is_set()
        study.broken = True


def test_a_driver_that_is_asked_to_stop_learns_it_and_from_where(study):
    with Lease(study) as lease:
        driver = study.driver()
        assert stop_request(study, driver) is None
        ask_to_stop(study, driver)
        assert lease.stopping.wait(5)
        assert lease.stopped_from == driver.host
        assert not lease.lost.is_set()
    assert study.values["driver"] is None


def test_a_request_of_yesterday_stops_no_later_driver(study):
    with Lease(study):
        ask_to_stop(study, study.driver())
    with Lease(study) as lease:
        first = study.driver().heartbeat
        while study.driver().heartbeat == first:
            time.sleep(0.01)
        time.sleep(0.1)
        assert not lease.stopping.is_set()


def test_what_is_done_at_every_beat_may_fail(study):
    called = threading.Event()

    def fail() -> None:
        called.set()
        raise HsearchError("The storage no longer answers.")

    with Lease(study) as lease:
        lease.at_every_beat(fail)
        assert called.wait(5)
        first = study.driver().heartbeat
        while study.driver().heartbeat == first:
            time.sleep(0.01)
        assert not lease.lost.is_set()


def test_whether_a_study_is_free_can_be_asked_without_taking_it(study):
    Lease(study).check_free()
    with Lease(study), pytest.raises(ConfigError, match="hsearch stop s"):
        Lease(study).check_free()
    assert study.values["driver"] is None


def test_a_driver_knows_the_ray_job_that_it_is(study, monkeypatch):
    monkeypatch.setenv(
        "RAY_JOB_CONFIG_JSON_ENV_VAR", '{"metadata": {"job_submission_id": "job-7"}}'
    )
    with Lease(study):
        assert str(study.driver()) == f"Ray job job-7 on {study.driver().host}"


def test_a_pulse_elsewhere_beats_until_it_stands_still(study):
    Lease(study)._write()
    changed(study, host="elsewhere", heartbeat=time.time() - 100)  # their clock is late
    now = 0.0
    pulse = Pulse(lambda: now)
    assert pulse.beats(study.driver())
    now = 0.5
    changed(study, heartbeat=time.time() - 99)
    assert pulse.beats(study.driver())
    now = 1.0
    assert pulse.beats(study.driver())
    now = 1.2
    assert not pulse.beats(study.driver())
    pulse.forget()
    assert pulse.beats(study.driver())


def test_a_pulse_of_this_machine_is_its_process(study):
    Lease(study)._write()
    assert Pulse().beats(study.driver())
    changed(study, process_start="1")
    assert not Pulse().beats(study.driver())

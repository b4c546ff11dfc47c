"""`hsearch stop`: what it says of drivers that listen, are dead, or are not there."""

import threading
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import hsearch.search.lease as lease_module
import hsearch.search.stopping as stopping
from hsearch.cli.main import main
from hsearch.search.driver import Driver
from hsearch.search.lease import Lease
from hsearch.search.reproduction import Reproduction
from hsearch.search.study import Study
from tests.search.made_reproduction import finish_run, made_plan, made_spec_on
from tests.search.made_study import SPACE, search


@pytest.fixture
def study(tmp_path, monkeypatch, toy_store):
    """A study of three trials in the default storage of the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSEARCH_STORAGE", raising=False)
    monkeypatch.setattr(lease_module, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lease_module, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(stopping, "LOOK_SECONDS", 0.02)
    with closing(Study.open("s", "hsearch.db", made_spec_on(toy_store), SPACE)) as opened:
        opened.take_over()
        search(opened, 3)
        opened.propose()
        opened.set_attribute("command", "hsearch tune --method hpl")
        yield opened


def run(*names: str):
    return CliRunner().invoke(main, ["stop", *names])


def drive(study) -> threading.Thread:
    """Holds a study in a thread until it is stopped."""
    held = threading.Event()

    def hold() -> None:
        with Lease(study) as lease:
            held.set()
            lease.stopping.wait(20)

    driver = threading.Thread(target=hold)
    driver.start()
    assert held.wait(5)
    return driver


def test_the_search_and_its_reproductions_are_stopped_and_what_is_kept_is_told(study):
    with closing(Reproduction.open(made_plan(study.record()), "hsearch.db")) as reproduction:
        reproduction.begin(2)
        finish_run(reproduction, 0)
        drivers = [drive(study), drive(reproduction)]
        result = run("s")
        for driver in drivers:
            driver.join()
    assert result.exit_code == 0, result.output
    first, second = result.stdout.splitlines()
    folds = study.record().folds_trained
    assert first.startswith(f"Stopped s: the record keeps {folds} finished fold trainings of 4 tri")
    assert "1 interrupted, " in first
    assert first.endswith("; to go on, run `hsearch tune --method hpl`.")
    assert second.startswith(
        "Stopped s/reproduce-cross-validated: the record keeps 4 finished fold trainings, 1 tested"
    )


def test_where_nobody_drives_that_is_said(study):
    result = run("s")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Nobody drives s: the record keeps ")


def test_a_dead_driver_is_told_as_such(study):
    Lease(study)._write()
    driver = Driver.from_dict(study.attribute("driver"))
    dead = driver.model_copy(update={"process_start": "1"})
    study.set_attribute("driver", dead.to_dict())
    result = run("s")
    assert result.exit_code == 0, result.output
    assert f"process {driver.pid} on {driver.host} was dead already; s: the rec" in result.stdout


def test_a_driver_that_does_not_let_go_is_an_error(study, monkeypatch):
    monkeypatch.setattr(stopping, "GIVE_UP_SECONDS", 0.1)
    Lease(study)._write()
    result = run("s")
    assert result.exit_code == 1
    assert "but s is still being driven; where epochs are long" in result.stderr


def test_a_wrong_name_stops_nothing(study):
    with Lease(study) as lease:
        result = run("s", "t")
        assert result.exit_code == 2
        assert "There is no study 't'" in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
        assert study.attribute("stop") is None
        assert not lease.stopping.is_set()
    assert run("s", "--storage", "no.db").exit_code == 2
    assert not Path("no.db").exists()

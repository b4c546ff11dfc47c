"""Records for who makes room: what is over, who drives, and deleting."""

from contextlib import closing

import pytest

import hsearch.search.lease as lease_module
from hsearch.errors import ConfigError
from hsearch.search.lease import Lease
from hsearch.search.removal import delete_study, held_study, study_state, study_states
from hsearch.search.reproduction import Reproduction
from hsearch.search.study import study_names
from tests.search.made_reproduction import finish_run, made_plan, made_spec_on
from tests.search.made_study import search


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(lease_module, "SETTLE_SECONDS", 0.05)


def test_what_may_go_on_and_who_drives_is_told(opened, storage, toy_store):
    study = opened(made_spec_on(toy_store))
    record = search(study, 2)
    study.propose()
    study.set_attribute("id", "0123")
    with closing(Reproduction.open(made_plan(record), storage)) as reproduction:
        reproduction.begin(3)
        finish_run(reproduction, 1)
        reproduction.fail(2, "It diverged.", final=True)
        (state,) = study_states(storage)
        assert (state.name, state.identity, state.trials) == ("s", "0123", 3)
        assert state.unfinished == {2}
        assert state.runs == {"cross-validated": 3}
        assert state.unfinished_runs == {"cross-validated": {0}}
        assert state.drivers == ()
        with Lease(reproduction):
            (driver,) = study_state("s", storage).drivers
            assert str(driver).startswith("process ")


def test_who_holds_a_study_keeps_drivers_away_until_it_is_deleted(opened, storage):
    study = opened()
    search(study, 1)
    with held_study("s", storage):
        with pytest.raises(ConfigError, match="is in the hands of"):
            Lease(study).acquire()
        delete_study("s", storage)
    assert study_names(storage) == []
    with pytest.raises(ConfigError, match="There is no study 's'"), held_study("s", storage):
        pass


def test_a_study_that_is_driven_cannot_be_held(opened, storage):
    study = opened()
    search(study, 1)
    with (
        Lease(study),
        pytest.raises(ConfigError, match="'s' is in the hands of process"),
        held_study("s", storage),
    ):
        pass
    assert study_names(storage) == ["s"]

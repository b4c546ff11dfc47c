"""`hsearch attach`: what is shown of a search that another process drives, and how it ends."""

import threading
from contextlib import closing

import pytest
from click.testing import CliRunner

import hsearch.cli.attach as attach_module
import hsearch.search.lease as lease_module
from hsearch.cli.main import main
from hsearch.errors import HsearchError
from hsearch.search.driver import Driver
from hsearch.search.lease import Lease, ask_to_stop, read_driver
from hsearch.search.news import Newsroom
from hsearch.search.study import Study
from hsearch.search.watch import Watch
from tests.search.made_study import SPACE, finish, fold_of, formula, made_spec, search
from tests.search.test_news import epoch


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study of two trials in the default storage of the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSEARCH_STORAGE", raising=False)
    monkeypatch.setattr(lease_module, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lease_module, "SETTLE_SECONDS", 0.05)
    with closing(Study.open("s", "hsearch.db", made_spec(), SPACE)) as opened:
        opened.take_over()
        search(opened, 2)
        opened.set_attribute("command", "hsearch tune --method hpl")
        yield opened


@pytest.fixture
def watched(study, monkeypatch):
    """Attaches while a driver does one step of its work at every look, and returns the output."""
    leases: list[Lease] = []

    def attach(*steps, trials=3):
        left = list(steps)
        lease = Lease(study)
        leases.append(lease)

        def step(seconds: float) -> None:
            if left:
                left.pop(0)(newsroom)
                newsroom.publish()
            else:
                newsroom.__exit__(None, None, None)
                lease.release()

        with (
            monkeypatch.context() as patch,
            Newsroom(study, trials, Watch(), lease.lost) as newsroom,
        ):
            lease.acquire()
            newsroom.said("1 node with 2 CPUs")
            newsroom.publish()
            patch.setattr(attach_module, "_pause", step)
            return CliRunner().invoke(main, ["attach", "s"])

    yield attach
    for lease in leases:
        lease.release()


def driver_of(study: Study) -> Driver:
    return Driver.from_dict(study.attribute("driver"))


def test_only_what_is_new_is_a_line_and_the_result_comes_last(study, watched):
    def propose(newsroom):
        newsroom.said("2 worker groups at work")
        newsroom.trial(study.propose())

    def fold(newsroom):
        trial = study.record().trials[2]
        newsroom.trial(study.record_fold(2, formula(fold_of(trial, 0))))

    def end(newsroom):
        newsroom.trial(finish(study, study.record().trials[2]))

    result = watched(propose, lambda news: news.epoch(2, 0, epoch(1)), fold, end)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Study s: hpl on ")
    assert "3 trials" in lines[0]
    assert lines[1].startswith("Recorded so far: ")
    assert lines[2].startswith("Driven by process ")
    assert lines[3] == "2 worker groups at work"
    assert lines[4].startswith("trial 2  fold 0  MAP@R ")
    assert "1 node" not in result.stdout
    assert "trial 0  " not in result.stdout
    assert "Best: trial " in result.stdout
    assert "hsearch reproduce s" in result.stdout


def test_a_stop_and_an_early_end_are_told_apart(study, watched):
    study.propose()
    stop = watched(lambda news: ask_to_stop(study, driver_of(study)))
    assert stop.exit_code == 0, stop.output
    assert "Stopped from " in stop.stdout
    early = watched(lambda news: news.said("No room."))
    assert early.exit_code == 1
    assert "No room.\n" in early.stdout
    assert "has let go of s before its end. To go on, run `hsearch tune --method hp" in early.stderr


def test_a_driver_that_dies_is_told(study, watched):
    def die(newsroom):
        study.set_attribute(
            "driver", driver_of(study).model_copy(update={"process_start": "1"}).to_dict()
        )

    study.propose()
    result = watched(die)
    assert result.exit_code == 1
    assert "has died. To go on, run `hsearch tune --method hpl`" in result.stderr


def test_ctrl_c_leaves_and_the_search_goes_on(study, watched):
    def leave(newsroom):
        raise KeyboardInterrupt

    result = watched(leave)
    assert result.exit_code == 0, result.output
    assert "Left s; its search goes on." in result.stdout
    assert read_driver(study) is not None


def test_a_storage_that_does_not_answer_for_a_while_is_waited_for(study, watched, monkeypatch):
    read, failed = Study.record, threading.Event()

    def record(self):
        if self is not study and not failed.is_set() and broken.is_set():
            failed.set()
            raise HsearchError("The storage no longer answers.")
        return read(self)

    broken = threading.Event()
    monkeypatch.setattr(Study, "record", record)
    result = watched(lambda news: broken.set(), lambda news: None, trials=2)
    assert failed.is_set()
    assert result.exit_code == 0, result.output
    assert "Best: trial " in result.stdout


def test_a_study_that_nobody_drives_is_shown_with_how_to_continue(study):
    result = CliRunner().invoke(main, ["attach", "s"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "Nobody drives s, which has 2 trials. To go on, run `hsearch tune --method hpl`"
    )
    assert "Best: trial " in result.stdout
    wrong = CliRunner().invoke(main, ["attach", "t"])
    assert wrong.exit_code == 2
    assert "There is no study 't'" in wrong.stderr


def test_a_search_that_ends_without_a_trial_and_removes_its_study_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSEARCH_STORAGE", raising=False)
    monkeypatch.setattr(lease_module, "SETTLE_SECONDS", 0.05)
    with closing(Study.open("s", "hsearch.db", made_spec(), SPACE)) as opened:
        lease = Lease(opened)
        lease.acquire()

        def end(seconds: float) -> None:
            lease.release()
            opened.remove_if_unused()

        monkeypatch.setattr(attach_module, "_pause", end)
        result = CliRunner().invoke(main, ["attach", "s"])
    assert result.exit_code == 1
    assert "has let go of s before its end" in result.stderr
    assert "Traceback" not in result.output
